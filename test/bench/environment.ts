// The environment variables that the benchmark passes to each baseline server.

/** @throws Error if the variable is missing: only the benchmark starts these servers */
export function required(name: string): string {
  const value = process.env[name]
  if (value === undefined) throw new Error(`${name} is not set: run npm run bench, which starts this server`)
  return value
}

export const port = Number(required('PORT'))
export const databaseUrl = required('DATABASE_URL')
export const redisUrl = required('REDIS_URL')
/** ioredis expects a Unix socket as a path, not as a URL. */
export const redisAddress = redisUrl.replace(/^redis\+unix:\/\//, '')
