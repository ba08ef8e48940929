// A reader of server-sent events.
import { once } from 'node:events'
import http from 'node:http'

/** The text between two empty lines. */
export interface Block {
  readonly id?: string
  readonly event?: string
  readonly data?: string
  readonly retry?: string
}

function blockOf(text: string): Block {
  return Object.fromEntries(text.split('\n').map(line => line.split(/: (.*)/s).slice(0, 2)))
}

export type EventStream = Awaited<ReturnType<typeof openEventStream>>

/** Opens a stream on a connection of its own. @throws Error if the response is no stream */
export async function openEventStream(url: string, headers: http.OutgoingHttpHeaders = {}) {
  const request = http.get(url, { agent: false, headers: { accept: 'text/event-stream', ...headers } })
  const [response]: [http.IncomingMessage] = await once(request, 'response').then(([first]) => [first])
  let text = ''
  let hasEnded = false
  const blocks: Block[] = []
  const changed = new EventTarget()
  const notify = () => changed.dispatchEvent(new Event('change'))
  response.setEncoding('utf8').on('data', (chunk: string) => {
    const complete = (text + chunk).split('\n\n')
    text = complete.pop() ?? ''
    blocks.push(...complete.map(blockOf))
    notify()
  })
  // A connection that is cut is an end, too.
  response.on('error', () => {})
  response.on('close', () => {
    hasEnded = true
    notify()
  })
  if (response.headers['content-type'] !== 'text/event-stream; charset=utf-8')
    throw new Error(`no stream: ${response.statusCode} ${response.headers['content-type']}`)

  /** Waits until the stream fulfils the condition. @throws Error if it ends before */
  async function until(condition: () => boolean): Promise<void> {
    while (!condition()) {
      if (hasEnded) throw new Error(`the stream has ended with ${JSON.stringify(blocks.at(-1))}`)
      await once(changed, 'change')
    }
  }

  return {
    headers: response.headers,
    blocks: (): readonly Block[] => blocks,
    events: () => blocks.filter(({ data }) => data !== undefined),
    /** The last id, which a reader that comes back sends. */
    position: () => blocks.findLast(({ id }) => id !== undefined)?.id,
    /** What was received after the last complete block. */
    rest: () => text,
    until,
    async untilEnd(): Promise<void> {
      while (!hasEnded) await once(changed, 'change')
    },
    hasEnded: () => hasEnded,
    pause: () => void response.pause(),
    resume: () => void response.resume(),
    /** Resets the connection. */
    close: () => void request.socket?.resetAndDestroy(),
    /** Closes the connection without a reset. */
    closeSilently: () => void request.destroy(),
  }
}
