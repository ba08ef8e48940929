// Opens a database in the process of a test, as a worker does.
import { type Config, loadConfig } from '../../src/config/config.ts'
import { createLog } from '../../src/core/log.ts'
import { createDatabase, type Database } from '../../src/database/database.ts'

const { database: defaults } = await loadConfig()

/**
 * Opens a database of the test server. The caller closes it.
 * @param settings those that differ from config/test.json
 * @param level `silent` if the test causes warnings
 */
export const openDatabase = (
  settings: Partial<Config['database']> & { url: string },
  level: 'warn' | 'silent' = 'warn',
): Database => createDatabase({ ...defaults, ...settings }, createLog(level, 'test'))
