// Runs the worker processes: performs the actions of plan.ts through node:cluster and records their results as the events of
// events.ts. Supervisor and workers exchange only the messages of core/messages.ts.
import cluster from 'node:cluster'
import type { Config } from '../../config/config.ts'
import { root } from '../../config/root.ts'
import { type DataSocket, release } from '../../core/listen.ts'
import type { Log } from '../../core/log.ts'
import { type Heartbeat, parseWorkerMessage, type WorkerMessage } from '../../core/messages.ts'
import type { DesiredStateStore } from '../desired-state.ts'
import { balance, type MaxActive } from './balance.ts'
import { type Reload, watchOf } from './fleet-state.ts'
import { createLoop } from './loop.ts'
import type { Action, Limits } from './plan.ts'
import { desiredOf, publishRevision } from './publish.ts'
import { createWatcher } from './watch.ts'
import { exitCauseOf, forkWorker, type Handle } from './worker-handle.ts'
import type { WorkerView } from './worker-view.ts'

/** Shorter heartbeat intervals count as this long: on a busy machine every process is late by some milliseconds. */
const MIN_HEARTBEAT_MS = 300
/** The id of a worker without a process. Those of node:cluster begin with 1. */
const NO_WORKER = 0

/** A worker whose resident memory exceeds `memoryBytes` is replaced as in a reload. */
type FleetLimits = Limits & Pick<Config['fleet'], 'beatMs' | 'memoryBytes'>

interface FleetOptions {
  readonly limits: FleetLimits
  /** Path of the file that a worker runs. */
  readonly exec: string
  readonly log: Log
  readonly desired: DesiredStateStore
  /** The bound sockets of the data ports by label, complete before the start. The workers listen on them. */
  readonly sockets: ReadonlyMap<string, DataSocket>
  /** Called for each heartbeat. @param before the previous heartbeat of the same worker */
  heartbeat(now: Heartbeat, before: Heartbeat | undefined): void
  /** Called when a worker listens on every data port. */
  listening(): void
  /** Ends the supervisor. Called when no worker is left after a stop, or when no worker can start. */
  exit(exitCode: number, reason: string): never
}

export type Fleet = ReturnType<typeof createFleet>

export function createFleet(options: FleetOptions) {
  const { limits, log, desired, sockets } = options
  const heartbeatMs = Math.max(limits.beatMs, MIN_HEARTBEAT_MS)
  const tickMs = Math.min(heartbeatMs, limits.silentMs / 4)
  const handles = new Map<number, Handle>()
  let lostWorkers = 0
  let resolveReload = (_outcome: Reload): void => {}
  const { record, ...loop } = createLoop({
    limits,
    tickMs,
    perform,
    reloadEnded: outcome => resolveReload(outcome),
  })

  function perform(action: Action): void {
    switch (action.type) {
      case 'fork':
        fork()
        break
      case 'retire':
        log.info({ worker: handles.get(action.id)?.worker.process.pid }, 'worker retiring')
        record({ type: 'retired', id: action.id })
        if (loop.state().stop !== undefined) for (const socket of sockets.values()) release(socket)
        send(action.id)
        break
      case 'kill':
        kill(action.id, action.reason)
        break
      case 'exit':
        options.exit(action.exitCode, action.reason)
    }
  }

  function kill(id: number, reason: string): void {
    record({ type: 'killed', id })
    const handle = handles.get(id)
    if (handle === undefined) return
    const hasDatabase = handle.heartbeat?.databaseDownMs === undefined
    handle.killReason = hasDatabase ? reason : `${reason}, and had no database`
    log.error({ worker: handle.worker.process.pid, reason: handle.killReason }, 'worker killed')
    // Not worker.kill(): it waits for the worker to disconnect first.
    handle.worker.process.kill('SIGKILL')
  }

  function fork(): void {
    const handle = forkWorker()
    if (typeof handle === 'string') {
      log.error({ reason: handle }, 'worker process error')
      record({ type: 'forked', id: NO_WORKER })
      record({ type: 'exited', id: NO_WORKER, cause: { reason: handle } })
      return
    }
    const { worker } = handle
    handles.set(worker.id, handle)
    // If the spawn failed, no exit event follows.
    worker.on('error', error => {
      log.error({ reason: error.message }, 'worker process error')
      if (worker.process.pid === undefined) exited(worker.id, -1, null)
    })
    record({ type: 'forked', id: worker.id })
  }

  function received(id: number, message: WorkerMessage): void {
    const handle = handles.get(id)
    if (handle === undefined) return
    const withoutDatabase = message.type === 'heartbeat' && message.databaseDownMs !== undefined
    const memoryBytes = message.type === 'heartbeat' ? message.rssBytes : 0
    const wasMarked = findWorker(id)?.toBeReplaced
    record({ type: 'message', id, withoutDatabase, overMemoryLimit: memoryBytes > limits.memoryBytes })
    switch (message.type) {
      case 'hello':
        send(id)
        break
      case 'socket-request':
        handle.worker.send(
          { type: 'socket', label: message.label },
          sockets.get(message.label)?.handle,
          () => {},
        )
        break
      case 'listening':
        record({ type: 'listening', id })
        watcher.listening(id)
        options.listening()
        break
      case 'heartbeat':
        if (findWorker(id)?.toBeReplaced !== wasMarked)
          log.warn({ worker: handle.worker.process.pid, memoryBytes }, 'worker exceeds fleet.memoryBytes')
        options.heartbeat(message, handle.heartbeat)
        handle.heartbeat = message
        watcher.beat(id)
        break
      case 'fatal':
        handle.fatal = message
        break
      case 'issuer-keys':
        if (desired.keepIssuerKeys(message)) void publish()
    }
  }

  function exited(id: number, code: number, signal: string | null): void {
    const handle = handles.get(id)
    if (handle === undefined) return
    const cause = exitCauseOf(handle, code, signal)
    const isExpected = loop.state().stop !== undefined || findWorker(id)?.state === 'retiring'
    if (!isExpected) lostWorkers++
    log[isExpected ? 'info' : 'warn'](
      { worker: handle.worker.process.pid, reason: cause.reason },
      'worker exited',
    )
    handles.delete(id)
    record({ type: 'exited', id, cause })
  }

  const findWorker = (id: number) => loop.state().workers.find(worker => worker.id === id)

  /** Sends a worker its desired state. A failed send is ignored: that worker is exiting. */
  function send(id: number, maxActive?: MaxActive): void {
    const state = desiredOf(desired.current(), loop.state(), id, sockets, maxActive)
    handles.get(id)?.worker.send(state, () => {})
  }

  const publish = () =>
    publishRevision(desired.nextRevision(), handles, send, id => findWorker(id)?.state === 'booting')

  const workers = (): WorkerView[] =>
    loop.state().workers.flatMap(one => {
      const handle = handles.get(one.id)
      if (handle === undefined) return []
      const silentMs = loop.clock() - (one.lastHeardMs ?? -Infinity)
      const missedHeartbeats = silentMs / heartbeatMs
      const { worker, startedMs, heartbeat } = handle
      return [{ ...one, pid: worker.process.pid, startedMs, silentMs, missedHeartbeats, heartbeat }]
    })
  const watcher = createWatcher(() => watchOf(loop.state()), workers, loop.clock, record)

  cluster.on('message', (worker, message) => {
    const parsed = parseWorkerMessage(message)
    if (parsed !== undefined) received(worker.id, parsed)
  })
  cluster.on('exit', (worker, code, signal) => exited(worker.id, code, signal))

  return {
    start(): void {
      setInterval(() => {
        for (const [id, maxActive] of balance(workers())) send(id, maxActive)
      }, heartbeatMs).unref()
      // An upgrade can have deleted the working directory of the supervisor.
      cluster.setupPrimary({ exec: options.exec, args: [], cwd: root })
      loop.start()
    },
    publish,
    /**
     * Replaces every worker, one after another. Must not be called while another reload is running.
     * @param watchMs for how long the first new worker serves beside the old ones; 0 turns the watch off
     */
    reload(watchMs: number): Promise<Reload> {
      const outcome = new Promise<Reload>(resolve => {
        resolveReload = resolve
      })
      record({ type: 'reload', watchMs })
      return outcome
    },
    stop: (delayMs: number) => record({ type: 'stop', delayMs }),
    /** Ends the current wait of a stop: first the drain delay, then the wait for in-flight requests. */
    skipWait: () => record({ type: 'skipWait' }),
    /** Counts as a message of a worker that is known to be unable to send one. */
    excuse: (id: number) => record({ type: 'message', id, withoutDatabase: false, overMemoryLimit: false }),
    watch: watcher.report,
    isReloading: () => loop.state().reload.state === 'running',
    isStopping: () => loop.state().stop !== undefined,
    workers,
    /** Returns how many workers have exited without being retired. */
    lostWorkers: () => lostWorkers,
  }
}
