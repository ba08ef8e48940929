// Runs the worker processes: performs the actions of plan.ts through node:cluster and records their results as the events of
// events.ts. Supervisor and workers exchange only the messages of core/messages.ts.
import cluster, { type Worker } from 'node:cluster'
import { root } from '../../config/root.ts'
import { reasonOf } from '../../core/error-reason.ts'
import { type DataSocket, release } from '../../core/listen.ts'
import type { Log } from '../../core/log.ts'
import {
  type DesiredPort,
  type DesiredState,
  parseWorkerMessage,
  type WorkerMessage,
} from '../../core/messages.ts'
import type { DesiredStateStore } from '../desired-state.ts'
import { balance, type MaxActive } from './balance.ts'
import { type ExitCause, type Reload, totalsOf, watchOf } from './fleet-state.ts'
import { createLoop } from './loop.ts'
import type { Action, FleetSettings } from './plan.ts'
import { describeWatch } from './watch.ts'
import { viewOf, type WorkerView } from './worker-view.ts'

/** Shorter heartbeat intervals count as this long: on a busy machine every process is late by some milliseconds. */
const MIN_BEAT_MS = 300
/** Timeout of the acknowledgements of a revision. A healthy worker replies within a few ms, even on a busy machine. */
const PUBLISH_TIMEOUT_MS = 1000
/** The id of a worker without a process. Those of node:cluster begin with 1. */
const NO_WORKER = 0

interface FleetOptions {
  readonly settings: FleetSettings
  /** Path of the file that a worker runs. */
  readonly exec: string
  readonly log: Log
  readonly desired: DesiredStateStore
  /** The bound sockets of the data ports by label, complete before the start. The workers listen on them. */
  readonly sockets: ReadonlyMap<string, DataSocket>
  /** Called when a worker listens on every data port. */
  listening(): void
  /** Ends the supervisor. Called when no worker is left after a stop, or when no worker can start. */
  exit(exitCode: number, reason: string): never
}

export type Fleet = ReturnType<typeof createFleet>

export function createFleet(options: FleetOptions) {
  const { log, desired, sockets } = options
  const beatMs = Math.max(options.settings.beatMs, MIN_BEAT_MS)
  const settings: FleetSettings = { ...options.settings, beatMs }
  const { record, ...loop } = createLoop(settings, perform)

  const findWorker = (id: number) => loop.state().workers.find(worker => worker.id === id)

  function perform(action: Action): void {
    switch (action.type) {
      case 'fork':
        fork()
        break
      case 'retire':
        log.info({ worker: findWorker(action.id)?.pid }, 'worker retiring')
        record({ type: 'retired', id: action.id })
        if (loop.state().stop !== undefined) for (const socket of sockets.values()) release(socket)
        send(action.id)
        break
      case 'kill': {
        const { id, reason, isPlanned } = action
        log[isPlanned ? 'info' : 'error']({ worker: findWorker(id)?.pid, reason }, 'worker killed')
        record({ type: 'killed', id, reason })
        // Not worker.kill(): it waits for the worker to disconnect first.
        cluster.workers?.[id]?.process.kill('SIGKILL')
        break
      }
      case 'exit':
        options.exit(action.exitCode, action.reason)
    }
  }

  function fork(): void {
    let worker: Worker
    try {
      worker = cluster.fork()
    } catch (error) {
      // Node.js throws some failures of a spawn, such as ENOMEM, and emits others.
      const reason = reasonOf(error)
      log.error({ reason }, 'worker process error')
      record({ type: 'forked', id: NO_WORKER, pid: undefined, startedMs: Date.now() })
      record({ type: 'exited', id: NO_WORKER, cause: { reason } })
      return
    }
    const { id, process } = worker
    // If the spawn failed, no exit event follows.
    worker.on('error', error => {
      log.error({ reason: error.message }, 'worker process error')
      if (process.pid === undefined) exited(id, { reason: error.message })
    })
    record({ type: 'forked', id, pid: process.pid, startedMs: Date.now() })
  }

  function received(id: number, message: WorkerMessage): void {
    const before = findWorker(id)
    if (before === undefined) return
    const isWatched = watchOf(loop.state())?.id === id
    record({ type: 'message', id, message })
    switch (message.type) {
      case 'hello':
        send(id)
        break
      case 'socket-request': {
        const { label } = message
        cluster.workers?.[id]?.send({ type: 'socket', label }, sockets.get(label)?.handle, () => {})
        break
      }
      case 'listening':
        options.listening()
        break
      case 'heartbeat': {
        const isMarked = findWorker(id)?.toBeReplaced && !before.toBeReplaced
        // A failed watch marks its worker as well, whatever memory it uses.
        if (isMarked && !isWatched)
          log.warn({ worker: before.pid, memoryBytes: message.rssBytes }, 'worker exceeds fleet.memoryBytes')
        break
      }
      case 'issuer-keys':
        if (desired.keepIssuerKeys(message)) void publish()
    }
  }

  /** @param observed the cause, unless the worker has reported one or was killed by the supervisor */
  function exited(id: number, observed: ExitCause, code?: number): void {
    const worker = findWorker(id)
    if (worker === undefined) return
    const { pid, exitCause: cause = observed, state, killed } = worker
    const isEnding = loop.state().stop !== undefined || state === 'retiring'
    // Any other end cuts the requests that it was still serving.
    const isExpected = isEnding && (code === 0 || killed)
    log[isExpected ? 'info' : 'warn']({ worker: pid, reason: cause.reason }, 'worker exited')
    record({ type: 'exited', id, cause })
  }

  /**
   * Sends a worker its desired state: every port of a retiring worker is closing. A failed send is ignored: that worker is exiting.
   * @param maxActive by label
   */
  function send(id: number, maxActive: MaxActive = {}): void {
    const isRetiring = findWorker(id)?.state === 'retiring'
    const isStopping = loop.state().stop !== undefined
    const state = desired.current()
    const ports = Object.entries(state.ports).map(([label, port]): [string, DesiredPort] => {
      if (!isRetiring) return [label, { ...port, maxActive: maxActive[label] }]
      const emptiesQueue = isStopping && !sockets.get(label)?.isInherited
      return [label, { ...port, state: 'closing', emptiesQueue }]
    })
    const message: DesiredState = { ...state, ports: Object.fromEntries(ports) }
    cluster.workers?.[id]?.send(message, () => {})
  }

  /**
   * Resolves when every worker that has booted has acknowledged a new revision with a heartbeat, or has exited. A worker that does
   * not reply in time keeps its last heartbeat.
   */
  async function publish(): Promise<void> {
    const revision = desired.nextRevision()
    for (const { id } of loop.state().workers) send(id)
    await loop.until(
      ({ workers }) =>
        workers.every(
          ({ state, heartbeat }) => state === 'booting' || (heartbeat?.appliedRevision ?? 0) >= revision,
        ),
      PUBLISH_TIMEOUT_MS,
    )
  }

  const workers = (): WorkerView[] => {
    const nowMs = loop.clock()
    return loop.state().workers.map(worker => viewOf(worker, beatMs, nowMs))
  }

  cluster.on('message', (worker, message) => {
    const parsed = parseWorkerMessage(message)
    if (parsed !== undefined) received(worker.id, parsed)
  })
  cluster.on('exit', ({ id }, code, signal: string | null) => {
    const reason = signal === null ? `worker exited with code ${code}` : `worker terminated by ${signal}`
    exited(id, { reason, killedExternally: signal === 'SIGKILL' }, code)
  })

  return {
    start(): void {
      setInterval(() => {
        for (const [id, maxActive] of balance(workers())) send(id, maxActive)
      }, beatMs).unref()
      // An upgrade can have deleted the working directory of the supervisor.
      cluster.setupPrimary({ exec: options.exec, args: [], cwd: root })
      loop.start()
    },
    publish,
    /**
     * Replaces every worker, one after another. Must not be called while another reload is running.
     * @param watchMs for how long the first new worker serves beside the old ones; 0 turns the watch off
     */
    async reload(watchMs: number): Promise<Reload> {
      record({ type: 'reload', watchMs })
      await loop.until(({ reload }) => reload.state !== 'running')
      return loop.state().reload
    },
    stop: (delayMs: number) => record({ type: 'stop', delayMs }),
    /** Ends the current wait of a stop: first the drain delay, then the wait for in-flight requests. */
    skipWait: () => record({ type: 'skipWait' }),
    /** Counts as a message of a worker that is known to be unable to send one. */
    excuse: (id: number) => record({ type: 'message', id }),
    /** Returns the watch that is going on, as the status shows it. */
    watch: () => describeWatch(loop.state(), loop.clock()),
    isReloading: () => loop.state().reload.state === 'running',
    isStopping: () => loop.state().stop !== undefined,
    workers,
    /** Returns how many workers have exited without being retired, or could not be created. */
    lostWorkers: () => loop.state().lostWorkers,
    totals: () => totalsOf(loop.state()),
  }
}
