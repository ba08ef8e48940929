// Round-robin scheduling: reclaims connections that were sent to a worker but not accepted before it died. Node drops
// these handles, so their clients would wait forever (https://github.com/nodejs/node/issues/21746). The internal messages
// used here are the same in Node 20 to 26.
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
 * When `worker` dies, passes the connections that it has not accepted to another worker, or closes them if there is none.
 * Nothing was read from these connections, so no request is served twice.
 */
export function reclaimConnections({ process: child }: Worker, hasReadyWorker: () => boolean): void {
  const pending = new Map<number, { close(): void }>()
  const { send } = child
  child.send = (...args: [message: Serializable, ...rest: unknown[]]): boolean => {
    const [message, handle] = args
    if (typeof message === 'object' && isHandover(message) && isCloseable(handle))
      pending.set(message.seq, handle)
    return Reflect.apply(send, child, args)
  }
  child.on('internalMessage', (message: { readonly ack?: number }) => {
    if (message.ack !== undefined) pending.delete(message.ack)
  })
  let disconnected = false
  child.once('disconnect', () => {
    disconnected = true
  })
  // `close` follows the exit and the last message, so every acknowledgement has been read.
  child.once('close', () => {
    // With a handle in transit Node never emits `disconnect`, and keeps the worker in its list.
    if (!disconnected) child.emit('disconnect')
    for (const [seq, handle] of pending) {
      // A refused connection: Node hands it to the next worker.
      if (hasReadyWorker()) child.emit('internalMessage', { cmd: 'NODE_CLUSTER', ack: seq, accepted: false })
      else handle.close()
    }
  })
}
