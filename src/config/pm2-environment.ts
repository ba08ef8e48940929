// Stops pm2 from contacting its vendor (version.pm2.io). Import this file before pm2, which reads the variables when it is
// loaded and passes them to its daemon.
import { homedir } from 'node:os'
import { join } from 'node:path'

// The daemon does not ask daily for a newer version of pm2.
process.env.PM2_DISABLE_VERSION_CHECK = 'true'
// pm2 marks its home folder as used. Without the mark, the first `npx pm2 …` of a user would ask for a newer version.
process.env.PM2_DISCRETE_MODE = 'true'

/** Returns the folder in which pm2 keeps its sockets, lists and logs. */
export const pm2Home = (): string => process.env.PM2_HOME || join(homedir(), '.pm2')
