// The names of the operators' commands, and the error of one that is refused.

export const commandNames = [
  'drain',
  'wait',
  'resume',
  'status',
  'reload',
  'reload-certificates',
  'log-level',
  'heap-snapshot',
  'cpu-profile',
] as const
export type CommandName = (typeof commandNames)[number]

export const isCommandName = (name: string): name is CommandName => commandNames.some(one => one === name)

const withoutArgument: readonly CommandName[] = ['status', 'reload', 'reload-certificates']

/** Whether the command requires an argument: a port, a log level or a process. */
export const takesArgument = (name: CommandName): boolean => !withoutArgument.includes(name)

/** The command is refused and nothing has changed. The message says what is allowed. */
export class CommandError extends Error {}
