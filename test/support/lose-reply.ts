// Sends an operator's command in such a way that pm2 loses the first reply to it, and prints what comes of it. pm2 takes
// one listener to its bus at a time: behind hundreds of others, one is heard of long after the reply was given.
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createConnection } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import pm2 from 'pm2'
import { trigger } from '../../src/cli/pm2/trigger.ts'

const [command = '', argument = null] = process.argv.slice(2)
const home = process.env.PM2_HOME ?? ''
const daemon = Number(await readFile(join(home, 'pm2.pid'), 'utf8'))

await promisify<void>(callback => pm2.connect(callback))()
process.kill(daemon, 'SIGSTOP')
const others = Array.from({ length: 400 }, () => createConnection(join(home, 'pub.sock')))
await Promise.all(others.map(other => once(other, 'connect')))
const outcome = trigger('users-api', command, argument, 20_000)
process.kill(daemon, 'SIGCONT')
console.log(JSON.stringify(await outcome))
process.exit()
