// The worker's end of the channel to its supervisor: messages in both directions, and the sockets of the data ports.
import cluster from 'node:cluster'
import { type Diagnosis, diagnose } from '../core/diagnosis.ts'
import { reasonOf } from '../core/error-reason.ts'
import type { SocketHandle } from '../core/listen.ts'
import { type DesiredState, parseSupervisorMessage, type WorkerMessage } from '../core/messages.ts'

/** The interval of requests for a socket that does not arrive. */
const REQUEST_MS = 1000

/** Resolves when the message has been sent, or cannot be sent because the supervisor is gone. */
const send = (message: WorkerMessage): Promise<void> =>
  new Promise(resolve => process.send?.(message, undefined, undefined, () => resolve()))

async function answerDiagnosis(diagnosis: Diagnosis): Promise<void> {
  const error: unknown = await diagnose(diagnosis).catch((error: unknown) => error)
  const { file } = diagnosis
  await send({ type: 'diagnosed', file, ...(error !== undefined && { error: reasonOf(error) }) })
}

/** Receives the messages of the supervisor from now on. */
export function openSupervisorChannel() {
  /** Resolvers of the sockets that were requested, by port label. */
  const requests = new Map<string, (socket: SocketHandle) => void>()
  let latest: DesiredState | undefined
  /** Receives each desired state. */
  let apply = (_state: DesiredState): void => {}
  process.on('message', (sent, handle) => {
    const message = parseSupervisorMessage(sent)
    if (message?.type === 'socket' && handle !== undefined && 'close' in handle) {
      const deliver = requests.get(message.label)
      requests.delete(message.label)
      if (deliver === undefined) handle.close()
      else deliver(handle)
    } else if (message?.type === 'diagnose') void answerDiagnosis(message)
    else if (message?.type === 'desired-state') {
      latest = message
      apply(message)
    }
  })
  const { worker } = cluster
  // The cluster module fails to send when the supervisor is gone. The `disconnect` event handles that case.
  worker?.on('error', () => {})

  return {
    send,

    /** Tells the supervisor that the worker receives messages. @returns the desired state, its reply */
    hello(): Promise<DesiredState> {
      void send({ type: 'hello' })
      return new Promise(resolve => {
        apply = resolve
      })
    },

    /** Calls `listener` with the desired state that was received last, and with each later one. */
    follow(listener: (state: DesiredState) => void): void {
      apply = listener
      if (latest !== undefined) listener(latest)
    },

    /** Resolves with the socket of a data port, which the supervisor has bound. */
    async requestSocket(label: string): Promise<SocketHandle> {
      const request = () => void send({ type: 'socket-request', label })
      request()
      // Node.js drops a socket for which the worker has no free file descriptor.
      const repeated = setInterval(request, REQUEST_MS).unref()
      try {
        return await new Promise(resolve => requests.set(label, resolve))
      } finally {
        clearInterval(repeated)
      }
    },

    /** Calls `listener` when the supervisor is gone. Without it, the cluster module then ends the process at once. */
    onLost(listener: () => void): void {
      worker?.on('disconnect', () => {
        worker.exitedAfterDisconnect = true
        listener()
      })
    },
  }
}
