// The names of the operators' commands, and the error of one that is rejected.

/** Each command, and whether it requires an argument: a port, a log level or a process. The others take none. */
const commands = {
  drain: true,
  wait: true,
  resume: true,
  status: false,
  reload: false,
  'reload-certificates': false,
  'log-level': true,
  'heap-snapshot': true,
  'cpu-profile': true,
}
export type CommandName = keyof typeof commands

export const isCommandName = (name: string): name is CommandName => Object.hasOwn(commands, name)

export const commandNames = Object.keys(commands).filter(isCommandName)

export const takesArgument = (name: CommandName): boolean => commands[name]

/** The command is rejected, and nothing has changed. The message says what is allowed. */
export class CommandError extends Error {}
