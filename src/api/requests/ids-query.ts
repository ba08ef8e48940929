// Parses the parameters of a DELETE of several records.
import type { Fault } from '../../core/api-error.ts'
import { parseId } from '../../model/resource.ts'
import { notAnId, Parameters } from './parameters.ts'

const names = ['id', 'id[in]']

/** Whether a fault is about `id` or `id[in]` with a value that is not UTF-8: its parameter is the pair as sent. */
const isUndecodedList = (fault: Fault): boolean =>
  'parameter' in fault && /^id(\[in\]|%5[Bb]in%5[Dd])?=/.test(fault.parameter)

/**
 * Parses `id=1`, or `id[in]=1,2&id[in]=3`, which is one list, in its order. At least one id is required, and no other parameter is
 * allowed. `id` must be alone: a GET with `id=1&id[in]=1,2` selects the one record that matches both.
 * @param max maximum number of ids
 * @throws ApiError with all faults
 */
export function parseIdsQuery(queryString: string, max: number): number[] {
  const parameters = new Parameters(queryString, names)
  const ids: number[] = []
  const lists = parameters.pairs.filter(({ name }) => names.includes(name))
  for (const { name, value } of lists)
    for (const part of name === 'id' ? [value] : value.split(',')) {
      const id = parseId(part)
      if (id === undefined) parameters.fault(name, notAnId(part))
      else ids.push(id)
    }
  const isGiven = lists.length > 0 || parameters.faults.listed.some(isUndecodedList)
  if (!isGiven) parameters.fault('id[in]', 'is required: the ids to delete, separated by commas')
  if (lists.length > 1 && lists.some(({ name }) => name === 'id'))
    parameters.fault('id', 'must be the only parameter; use id[in] for several ids')
  if (ids.length > max)
    parameters.fault('id[in]', `has ${ids.length} ids; at most ${max} are allowed`, 'limit_exceeded')
  parameters.faults.throw()
  return ids
}
