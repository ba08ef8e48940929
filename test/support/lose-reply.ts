// Sends an operator's command so that pm2 loses the first reply, and prints the outcome. pm2 accepts one subscriber
// to its bus at a time: a subscriber that is queued behind hundreds of subscribers is accepted long after the reply
// was sent.
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
const subscribers = Array.from({ length: 400 }, () => createConnection(join(home, 'pub.sock')))
await Promise.all(subscribers.map(subscriber => once(subscriber, 'connect')))
const outcome = trigger('users-api', command, argument, 20_000)
process.kill(daemon, 'SIGCONT')
console.log(JSON.stringify(await outcome))
process.exit()
