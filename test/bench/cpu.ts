// CPU times of processes, from /proc.
import { readdirSync, readFileSync } from 'node:fs'

/** The unit of CPU times in /proc (proc(5)): USER_HZ is 100 on all Linux systems in use. */
const TICK_US = 10_000

/** The fields of /proc/<pid>/stat after the name of the program, from `state` on. */
const statOf = (pid: number): string[] =>
  readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []

/** The CPU time of a process, in microseconds. @param pid undefined if the process has ended */
export function cpuUs(pid: number | undefined): number {
  if (pid === undefined) throw new Error('a server has ended')
  const [, , , , , , , , , , , user, system] = statOf(pid)
  return (Number(user) + Number(system)) * TICK_US
}

/** Returns a child of a process, such as the only worker of a supervisor. */
export function childOf(pid: number | undefined): number {
  const pids = readdirSync('/proc').filter(name => /^\d+$/.test(name))
  const child = pids.find(name => {
    try {
      return statOf(Number(name))[1] === String(pid)
    } catch {
      // The process has ended.
      return false
    }
  })
  if (child === undefined) throw new Error(`process ${pid} has no child`)
  return Number(child)
}
