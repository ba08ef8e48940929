// The commands `heap-snapshot` and `cpu-profile`: asks one of the processes for a file that shows its inside.
import cluster, { type Worker } from 'node:cluster'
import { on } from 'node:events'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { type Diagnosis, type DiagnosisKind, diagnose } from '../core/diagnosis.ts'
import { parseWorkerMessage } from '../core/messages.ts'
import { CommandError } from './command-names.ts'

const DEFAULT_SECONDS = 10
const MAX_SECONDS = 300
/** A worker whose event loop is blocked by a snapshot sends no heartbeat. */
const EXCUSE_MS = 100
/** A worker that has not replied so long after the end of the profile does not know the request, or hangs. */
const MAX_MS = 120_000

const workers = (): Worker[] => Object.values(cluster.workers ?? {}).filter(worker => worker !== undefined)

/** @throws Error of the worker, or if it exits or does not reply */
async function askWorker(worker: Worker, diagnosis: Diagnosis, excuse: (id: number) => void): Promise<void> {
  const signal = AbortSignal.timeout(1000 * diagnosis.seconds + MAX_MS)
  const endMs = performance.now() + 1000 * diagnosis.seconds
  // A worker that is being profiled sends heartbeats until the end. Without them, it hangs.
  const timer = setInterval(() => performance.now() >= endMs && excuse(worker.id), EXCUSE_MS)
  try {
    const messages = on(worker, 'message', { signal, close: ['exit'] })
    // A worker that has exited before emits no event any more.
    worker.send({ type: 'diagnose', ...diagnosis }, error => error && messages.return?.())
    for await (const [message] of messages) {
      const reply = parseWorkerMessage(message)
      if (reply?.type !== 'diagnosed' || reply.file !== diagnosis.file) continue
      if (reply.error !== undefined) throw new Error(reply.error)
      return
    }
    throw new Error('the worker has exited')
  } catch (error) {
    throw signal.aborted ? new Error('the worker has not replied') : error
  } finally {
    clearInterval(timer)
  }
}

/** @throws CommandError if the argument is not `<pid>`, or `<pid>:<seconds>` for a profile */
function parseArgument(kind: DiagnosisKind, argument: string): { pid: number; seconds: number } {
  const [, pid, seconds] = /^(\d{1,10})(?::(\d{1,3}))?$/.exec(argument) ?? []
  const isProfile = kind === 'cpu-profile'
  const duration = seconds === undefined ? DEFAULT_SECONDS : Number(seconds)
  if (pid === undefined || (seconds !== undefined && !isProfile) || duration < 1 || duration > MAX_SECONDS)
    throw new CommandError(
      isProfile
        ? `use cpu-profile <pid> or cpu-profile <pid>:<seconds>, with 1 to ${MAX_SECONDS} seconds`
        : 'use heap-snapshot <pid>',
    )
  return { pid: Number(pid), seconds: isProfile ? duration : 0 }
}

/** Returns a worker; undefined for the supervisor. @throws CommandError if the service has no such process */
function workerOf(pid: number): Worker | undefined {
  const worker = workers().find(one => one.process.pid === pid)
  if (worker !== undefined || pid === process.pid) return worker
  const others = workers().map(one => one.process.pid)
  const known = [`${process.pid} (supervisor)`, ...others].join(', ')
  throw new CommandError(`the service has no process ${pid}; its processes are ${known}`)
}

export type Diagnoses = ReturnType<typeof createDiagnoses>

/**
 * @param folder for the files; it is created
 * @param excuse called while the worker with this id may be unable to send heartbeats
 */
export function createDiagnoses(folder: string, excuse: (id: number) => void) {
  let isWriting = false

  return {
    /** Writes a file. @throws CommandError if nothing was begun, Error if the process could not write it: no part is left */
    async write(kind: DiagnosisKind, argument: string): Promise<{ pid: number; path: string }> {
      const { pid, seconds } = parseArgument(kind, argument)
      const worker = workerOf(pid)
      if (isWriting) throw new CommandError('another snapshot or profile is being written; wait for its end')
      isWriting = true
      try {
        await mkdir(folder, { recursive: true, mode: 0o700 })
        const time = new Date().toISOString().replaceAll(':', '-')
        // Chromium opens files with the endings `heapsnapshot` and `cpuprofile`.
        const path = join(folder, `${kind}-${pid}-${time}.${kind.replace('-', '')}`)
        const diagnosis = { kind, file: path, seconds }
        const writing = worker === undefined ? diagnose(diagnosis) : askWorker(worker, diagnosis, excuse)
        await writing.catch(async (error: unknown) => {
          // On a full disk, a part of a snapshot would take the space that the state file needs.
          await rm(path, { force: true })
          throw error
        })
        return { pid, path }
      } finally {
        isWriting = false
      }
    },
  }
}
