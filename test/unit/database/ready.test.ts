// The start of a worker whose database cannot be used.
import test from 'ava'
import { loadConfig } from '../../../src/config/config.ts'
import { exitCodes, FatalError } from '../../../src/core/exit-codes.ts'
import { createLog } from '../../../src/core/log.ts'
import { createDatabase } from '../../../src/database/database.ts'

test('ready: a parameter of the URL that the driver cannot use is a fault of the settings', async t => {
  const url = 'mysql://me@127.0.0.1/users?socketPath={}'
  const database = createDatabase({ ...(await loadConfig()).database, url }, createLog('silent', 'worker'))
  t.teardown(() => database.close())
  const error = await t.throwsAsync(database.ready(), {
    instanceOf: FatalError,
    message: /^the database cannot be used \(.*\): correct DATABASE_URL$/,
  })
  t.is(error?.exitCode, exitCodes.configuration)
})
