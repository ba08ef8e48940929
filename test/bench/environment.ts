// What run.ts tells each server it starts.

/** @throws Error where the variable is missing: these servers are not for starting by hand */
function required(name: string): string {
  const value = process.env[name]
  if (value === undefined) throw new Error(`${name} is not set: start it with npm run bench`)
  return value
}

export const port = Number(required('PORT'))
export const databaseUrl = required('DATABASE_URL')
export const redisUrl = required('REDIS_URL')
/** ioredis takes a Unix socket as a path, not as a URL. */
export const redisAddress = redisUrl.replace(/^redis\+unix:\/\//, '')
