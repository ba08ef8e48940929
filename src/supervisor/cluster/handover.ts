// Under round robin: connections that a worker was handed and never took. Node forgets them where the worker dies, and
// their clients wait for ever (https://github.com/nodejs/node/issues/21746). The messages are those of Node 20 to 26.
import type { Serializable } from 'node:child_process'
import type { Worker } from 'node:cluster'

interface Handover {
  readonly act: 'newconn'
  readonly seq: number
}

function isHandover(message: object): message is Handover {
  return 'act' in message && message.act === 'newconn' && 'seq' in message && typeof message.seq === 'number'
}

function isCloseable(handle: unknown): handle is { close(): void } {
  return (
    typeof handle === 'object' && handle !== null && 'close' in handle && typeof handle.close === 'function'
  )
}

/**
 * Takes back what `worker` has not taken when it dies: for another worker, or to be closed where there is none.
 * Nothing of it was read, so no request is served twice.
 */
export function reclaimConnections({ process: child }: Worker, hasOthers: () => boolean): void {
  const untaken = new Map<number, { close(): void }>()
  const { send } = child
  child.send = (...args: [message: Serializable, ...rest: unknown[]]): boolean => {
    const [message, handle] = args
    if (typeof message === 'object' && isHandover(message) && isCloseable(handle))
      untaken.set(message.seq, handle)
    return Reflect.apply(send, child, args)
  }
  child.on('internalMessage', (message: { readonly ack?: number }) => {
    if (message.ack !== undefined) untaken.delete(message.ack)
  })
  let disconnected = false
  child.once('disconnect', () => {
    disconnected = true
  })
  // The process has ended, and all that it said has been read.
  child.once('close', () => {
    // With a connection on its way Node puts this event off for ever, and keeps the worker on its list.
    if (!disconnected) child.emit('disconnect')
    for (const [seq, handle] of untaken) {
      if (hasOthers()) child.emit('internalMessage', { cmd: 'NODE_CLUSTER', ack: seq, accepted: false })
      else handle.close()
    }
  })
}
