// The workers' processes: does what the plan says, and records what becomes of it.
import cluster from 'node:cluster'
import { once } from 'node:events'
import type { Scheduling } from '../../config/schema.ts'
import type { Log } from '../../core/log.ts'
import {
  type DesiredState,
  type Heartbeat,
  parseWorkerMessage,
  type WorkerMessage,
} from '../../core/messages.ts'
import { emptyFleet, type Fleet, type FleetEvent, type Reload, reduce } from './fleet.ts'
import { reclaimConnections } from './handover.ts'
import { type Limits, plan, type Step } from './plan.ts'
import { closing, deathOf, type Handle, type WorkerView } from './worker-handle.ts'

/** A healthy worker answers in a few, also on a busy machine; nobody should wait much longer for a hung one. */
const ANSWER_MS = 1000

export interface ClusterOptions {
  readonly limits: Limits
  /** Over this a worker is replaced, in good order. */
  readonly memoryBytes: number
  readonly scheduling: Scheduling
  /** The file that a worker runs. */
  readonly exec: string
  readonly log: Log
  /** What every worker that is not retiring should do now. */
  desiredState(revision: number): DesiredState
  /** A worker has said how it is. @param before what it said last */
  heartbeat(now: Heartbeat, before: Heartbeat | undefined): void
  /** A worker listens on every data port. */
  listening(): void
  /** The supervisor should end: nobody is left, or nobody comes up. */
  end(exitCode: number, reason: string): never
}

export type Cluster = ReturnType<typeof createCluster>

export function createCluster(options: ClusterOptions) {
  const { limits, log } = options
  const handles = new Map<number, Handle>()
  let fleet: Fleet = emptyFleet
  let timer: NodeJS.Timeout | undefined
  let awake = false
  let lastRunMs = performance.now()
  let revision = 0
  let reloaded = (_outcome: Reload): void => {}

  function record(event: FleetEvent): void {
    const before = fleet.reload
    fleet = reduce(fleet, event, limits.workers, performance.now())
    if (before.state === 'running' && fleet.reload.state !== 'running') reloaded(fleet.reload)
    wake()
  }

  /** Looks at the plan soon: after the messages that have arrived, so that nobody is judged unheard. */
  function wake(): void {
    if (awake) return
    awake = true
    setImmediate(run)
  }

  function run(): void {
    const nowMs = performance.now()
    // Heartbeats wake it all the time. If they did not, it was stopped itself, and heard nobody for that reason.
    if (nowMs - lastRunMs > limits.silentMs / 2) record({ type: 'clockJump' })
    lastRunMs = nowMs
    for (;;) {
      const { steps, wakeAtMs } = plan(fleet, limits, nowMs)
      if (steps.length === 0) {
        clearTimeout(timer)
        if (wakeAtMs < Infinity) timer = setTimeout(wake, Math.ceil(wakeAtMs - nowMs))
        break
      }
      for (const step of steps) perform(step)
    }
    awake = false
  }

  function perform(step: Step): void {
    switch (step.do) {
      case 'fork':
        fork()
        break
      case 'retire':
        log.info({ worker: handles.get(step.id)?.worker.process.pid }, 'a worker retires')
        record({ type: 'retired', id: step.id })
        send(step.id)
        break
      case 'kill':
        kill(step.id, step.reason)
        break
      case 'end':
        options.end(step.exitCode, step.reason)
    }
  }

  function kill(id: number, reason: string): void {
    record({ type: 'killed', id })
    const handle = handles.get(id)
    if (handle === undefined) return
    log.error({ worker: handle.worker.process.pid, reason }, 'a worker is killed')
    handle.killReason = reason
    // Not worker.kill(), which waits for the worker to agree.
    handle.worker.process.kill('SIGKILL')
  }

  function fork(): void {
    const worker = cluster.fork()
    handles.set(worker.id, { worker, startedMs: Date.now() })
    reclaimConnections(worker, () =>
      fleet.workers.some(({ id, state }) => state === 'ready' && isConnected(id)),
    )
    // Without a process there is no exit to wait for.
    worker.on('error', error => {
      log.error({ reason: error.message }, 'a worker is in trouble')
      if (worker.process.pid === undefined) exited(worker.id, -1, null)
    })
    record({ type: 'forked', id: worker.id })
  }

  function received(id: number, message: WorkerMessage): void {
    const handle = handles.get(id)
    if (handle === undefined) return
    const withoutDatabase = message.type === 'heartbeat' && message.databaseDownSinceMs !== undefined
    const overweight = message.type === 'heartbeat' && message.rssBytes > options.memoryBytes
    record({ type: 'message', id, withoutDatabase, overweight })
    if (message.type === 'hello') send(id)
    else if (message.type === 'listening') {
      record({ type: 'listening', id })
      options.listening()
    } else if (message.type === 'heartbeat') {
      options.heartbeat(message, handle.heartbeat)
      handle.heartbeat = message
    } else handle.fatal = message
  }

  function exited(id: number, code: number, signal: string | null): void {
    const handle = handles.get(id)
    if (handle === undefined) return
    const death = deathOf(handle, code, signal)
    const asked = fleet.stop !== undefined || stateOf(id) === 'retiring'
    log[asked ? 'info' : 'warn'](
      { worker: handle.worker.process.pid, reason: death.reason },
      'a worker has ended',
    )
    handles.delete(id)
    record({ type: 'exited', id, death })
  }

  const isConnected = (id: number) => handles.get(id)?.worker.isConnected() === true
  const stateOf = (id: number) => fleet.workers.find(worker => worker.id === id)?.state

  /**
   * Says to a worker what is wanted of it; a worker that dies meanwhile needs not know.
   * @returns the number of the message, which is in the heartbeat that answers it
   */
  function send(id: number): number {
    const desired = options.desiredState(++revision)
    handles.get(id)?.worker.send(stateOf(id) === 'retiring' ? closing(desired) : desired, () => {})
    return desired.revision
  }

  cluster.on('message', (worker, message) => {
    const parsed = parseWorkerMessage(message)
    if (parsed !== undefined) received(worker.id, parsed)
  })
  cluster.on('exit', (worker, code, signal) => exited(worker.id, code, signal))

  return {
    start(): void {
      cluster.schedulingPolicy = options.scheduling === 'round-robin' ? cluster.SCHED_RR : cluster.SCHED_NONE
      cluster.setupPrimary({ exec: options.exec, args: [] })
      wake()
    },
    /** Says to all workers what is wanted now. */
    sendAll(): void {
      for (const id of handles.keys()) send(id)
    },
    /** Has every worker that came up say how it is now; who does not in a moment stays as it was known. */
    async refresh(): Promise<void> {
      const signal = AbortSignal.timeout(ANSWER_MS)
      const up = [...handles].filter(([id]) => stateOf(id) !== 'booting')
      const answers = up.map(async ([id, handle]) => {
        const sent = send(id)
        // Another heartbeat may be under way.
        while ((handle.heartbeat?.appliedRevision ?? 0) < sent)
          await once(handle.worker, 'message', { signal })
      })
      await Promise.allSettled(answers)
    },
    /** Replaces every worker, one after another. Not while another reload is running. */
    reload(): Promise<Reload> {
      const outcome = new Promise<Reload>(resolve => {
        reloaded = resolve
      })
      record({ type: 'reload' })
      return outcome
    },
    stop: (delayMs: number) => record({ type: 'stop', delayMs }),
    /** Ends the present wait of a stop. */
    skipWait: () => record({ type: 'skipWait' }),
    isReloading: () => fleet.reload.state === 'running',
    isStopping: () => fleet.stop !== undefined,
    workers: (): WorkerView[] =>
      fleet.workers.flatMap(worker => {
        const handle = handles.get(worker.id)
        if (handle === undefined) return []
        const { startedMs, heartbeat } = handle
        return [{ ...worker, pid: handle.worker.process.pid, startedMs, heartbeat }]
      }),
  }
}
