// The file in which a server has written its process id.
import { readFile } from 'node:fs/promises'

/**
 * Returns the process id in `file`.
 * @throws Error if the file has none: 0 stands for the process group of this process (kill(2)), and a negative number for
 *   another one
 */
export async function readPid(file: string): Promise<number> {
  const text = await readFile(file, 'utf8')
  if (!/^[1-9]\d*\n?$/.test(text))
    throw new Error(`${file} has no process id, but its server runs: end the server by hand`)
  return Number(text)
}
