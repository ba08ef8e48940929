// Entry point of `npm run key`: makes an API key. It prints the token, which is stored nowhere, and the entry for the
// settings, which has only the hash.
import { createToken, hashOf } from './api/callers/api-keys.ts'
import { runCommand, UsageError } from './cli/command-line.ts'
import { apiKeyFault } from './config/auth.ts'

const usage = `usage: npm run key -- NAME read|write

  NAME    the name of the caller, for the log
  read    the key allows GET and HEAD
  write   the key allows all methods`

async function main(): Promise<number> {
  const [name, scope, ...more] = process.argv.slice(2)
  if (name === undefined || scope === undefined || more.length > 0)
    throw new UsageError('a name and a scope are required, and nothing else')
  const fault = apiKeyFault(name, scope)
  if (fault !== undefined) throw new UsageError(fault)
  const token = createToken()
  console.log(`The token of ${name}. It is not stored anywhere, so save it now:

  ${token}

Add this entry to auth.keys, for example in config/local.json, then apply it with \`npm run ops -- reload\`:

  ${JSON.stringify({ name, sha256: hashOf(token), scope })}
`)
  return 0
}

process.exit(await runCommand(main, usage))
