// Writes a file that shows the inside of this process: its heap, or what it spends its time on.
import { writeFile } from 'node:fs/promises'
import { Session } from 'node:inspector/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { writeHeapSnapshot } from 'node:v8'

/** The names are those of the operators' commands. */
export const diagnosisKinds = ['heap-snapshot', 'cpu-profile'] as const
export type DiagnosisKind = (typeof diagnosisKinds)[number]

export interface Diagnosis {
  readonly kind: DiagnosisKind
  /** The path of the new file. Only the user of the process can read it. */
  readonly file: string
  /** How long a CPU profile takes. */
  readonly seconds: number
}

async function writeCpuProfile(file: string, seconds: number): Promise<void> {
  const session = new Session()
  session.connect()
  try {
    await session.post('Profiler.enable')
    await session.post('Profiler.start')
    await delay(1000 * seconds)
    const { profile } = await session.post('Profiler.stop')
    await writeFile(file, JSON.stringify(profile), { mode: 0o600, flag: 'wx' })
  } finally {
    session.disconnect()
  }
}

/** Blocks the event loop while it writes a heap snapshot. @throws Error if the file cannot be written */
export async function diagnose({ kind, file, seconds }: Diagnosis): Promise<void> {
  if (kind === 'cpu-profile') return writeCpuProfile(file, seconds)
  // V8 keeps the mode of a file that exists.
  await writeFile(file, '', { mode: 0o600, flag: 'wx' })
  writeHeapSnapshot(file)
}
