// The worker's end of the channel to its supervisor: messages in both directions, and the sockets of the data ports.
import cluster from 'node:cluster'
import { type Diagnosis, diagnose } from '../core/diagnosis.ts'
import { reasonOf } from '../core/error-reason.ts'
import type { SocketHandle } from '../core/listen.ts'
import {
  type DesiredState,
  parseDesiredState,
  parseDiagnosisMessage,
  parseSocketMessage,
  type WorkerMessage,
} from '../core/messages.ts'

/** Resolves when the message has been sent, or cannot be sent because the supervisor is gone. */
function send(message: WorkerMessage): Promise<void> {
  return new Promise(resolve => {
    if (process.send === undefined) resolve()
    else process.send(message, undefined, undefined, () => resolve())
  })
}

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
  let apply = (_state: DesiredState): void => {}
  const first = new Promise<DesiredState>(resolve => {
    process.on('message', (message, handle) => {
      const socket = parseSocketMessage(message)
      if (socket !== undefined && handle !== undefined && 'close' in handle)
        return requests.get(socket.label)?.(handle)
      const diagnosis = parseDiagnosisMessage(message)
      if (diagnosis !== undefined) return void answerDiagnosis(diagnosis)
      const state = parseDesiredState(message)
      if (state === undefined) return
      latest = state
      resolve(state)
      apply(state)
    })
  })
  // The cluster module fails to send when the supervisor is gone. The `disconnect` event handles that case.
  cluster.worker?.on('error', () => {})

  return {
    send,

    /** Tells the supervisor that the worker receives messages. @returns the first desired state, its reply */
    hello(): Promise<DesiredState> {
      void send({ type: 'hello' })
      return first
    },

    /** Calls `listener` with the desired state that was received last, and with each later one. */
    follow(listener: (state: DesiredState) => void): void {
      apply = listener
      if (latest !== undefined) listener(latest)
    },

    /** Resolves with the socket of a data port, which the supervisor has bound. */
    requestSocket(label: string): Promise<SocketHandle> {
      return new Promise(resolve => {
        requests.set(label, resolve)
        void send({ type: 'socket-request', label })
      })
    },

    /** Calls `listener` when the supervisor is gone. Without it, the cluster module then ends the process at once. */
    onLost(listener: () => void): void {
      cluster.worker?.on('disconnect', () => {
        if (cluster.worker !== undefined) cluster.worker.exitedAfterDisconnect = true
        listener()
      })
    },
  }
}
