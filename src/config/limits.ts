// The limits of requests, responses and connections.
import { constants } from 'node:buffer'
import * as z from 'zod'
import { areComparable } from './faults.ts'

export const atLeastOne = z.int().min(1)
/** Far below 2^53: the URL and the headers together must be a safe integer, or Node.js throws an error. */
const MAX_HEADER_BYTES = 2 ** 30
/** A value takes at least one byte, and a statement can have a list twice: Knex exceeds the stack at some 200,000 values. */
const MAX_URL_BYTES = 2 ** 16
/** Of a response, in addition to its body. */
const RESPONSE_HEAD_BYTES = 4096
/** More than the small requests of one connection that arrive at once, 64 KiB, take while they wait (5.5 MB). */
const MIN_WAITING_BYTES = 2 ** 23

export const limitsSchema = z
  .strictObject({
    bodyBytes: atLeastOne,
    batchEntries: atLeastOne,
    recordsPerPage: atLeastOne,
    filters: z.int().min(0),
    membershipsPerUser: atLeastOne,
    /** Maximum size of a response. A larger page is an error. The text of a response cannot be longer than a string. */
    responseBytes: atLeastOne.max(constants.MAX_STRING_LENGTH),
    urlBytes: z.int().min(64).max(MAX_URL_BYTES),
    headerBytes: z.int().min(512).max(MAX_HEADER_BYTES),
    headers: atLeastOne,
    /** Maximum number of connections per port and worker. */
    connections: atLeastOne,
    /** Maximum total size of the request bodies that a worker is receiving. */
    receivingBytes: atLeastOne,
    /** Maximum total size of the responses of a port that clients have not read yet. */
    unreadBytes: atLeastOne,
    /** Maximum total size of the requests of a port that wait for earlier responses on their connections. */
    waitingBytes: z.int().min(MIN_WAITING_BYTES),
  })
  .refine(({ receivingBytes, bodyBytes }) => receivingBytes >= bodyBytes, {
    path: ['receivingBytes'],
    when: areComparable('receivingBytes', 'bodyBytes'),
    error: 'must be at least limits.bodyBytes, so that a body of that size can be received',
  })
  // The response to a batch repeats names of unknown fields in a limited number of messages.
  .refine(
    ({ responseBytes, bodyBytes, batchEntries }) => responseBytes >= 6 * bodyBytes + 4096 * batchEntries,
    {
      path: ['responseBytes'],
      when: areComparable('responseBytes', 'bodyBytes', 'batchEntries'),
      error:
        'must be at least 6 * limits.bodyBytes + 4096 * limits.batchEntries, the largest response to a batch',
    },
  )
  .refine(({ unreadBytes, responseBytes }) => unreadBytes >= responseBytes + RESPONSE_HEAD_BYTES, {
    path: ['unreadBytes'],
    when: areComparable('unreadBytes', 'responseBytes'),
    error: `must be at least limits.responseBytes + ${RESPONSE_HEAD_BYTES}, so that a client can read a response of that size`,
  })
