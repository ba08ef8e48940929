// The names of the operators' commands.

export const commandNames = [
  'drain',
  'wait',
  'resume',
  'status',
  'reload',
  'reload-certificates',
  'log-level',
] as const
export type CommandName = (typeof commandNames)[number]

export const isCommandName = (name: string): name is CommandName => commandNames.some(one => one === name)

/** Whether the command requires an argument: a port or a log level. */
export function takesArgument(name: CommandName): boolean {
  return name === 'drain' || name === 'wait' || name === 'resume' || name === 'log-level'
}
