// Runs a program in a pseudo terminal, with script(1) of util-linux.
import { type Outcome, runToEnd } from './run-to-end.ts'

/**
 * @param columns the width of the terminal
 * @returns the exit code and the screen's text in `stdout`; a terminal does not separate standard error
 */
export async function runInTerminal(
  columns: number,
  command: string,
  env: NodeJS.ProcessEnv,
): Promise<Outcome> {
  const outcome = await runToEnd('script', ['-qec', `stty cols ${columns}; ${command}`, '/dev/null'], {
    ...env,
    TERM: 'xterm-256color',
  })
  return { ...outcome, stdout: outcome.stdout.replaceAll('\r\n', '\n') }
}
