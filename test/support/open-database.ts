// Opens a database in the process of a test, as a worker does.
import { type Config, loadConfig } from '../../src/config/config.ts'
import { createLog } from '../../src/core/log.ts'
import { createDatabase, type Database } from '../../src/database/database.ts'

const { database: defaults } = await loadConfig()
// Shared, because each log adds a listener for the exit of the process.
const logs = { warn: createLog('warn', 'test'), silent: createLog('silent', 'test') }

interface Options {
  /** `silent` if the test causes warnings. */
  readonly level?: keyof typeof logs
  /** Whether writes append events to the change feed. */
  readonly recordsEvents?: boolean
}

/** Opens a database of the test server. The caller closes it. @param settings those that differ from config/test.json */
export const openDatabase = (
  settings: Partial<Config['database']> & { url: string },
  { level = 'warn', recordsEvents = false }: Options = {},
): Database => createDatabase({ ...defaults, ...settings }, logs[level], recordsEvents)
