// What an error of the driver means for a request and for a start.
import test from 'ava'
import { isNotUpYet, rejectionOf, translate } from '../../../src/database/driver-errors.ts'

test('driver errors: a certificate that is refused lets requests fail with unavailable, and ends a start', t => {
  const error = Object.assign(new Error('certificate has expired'), { code: 'HANDSHAKE_SSL_ERROR' })
  t.like(translate(error), { code: 'unavailable', cause: error })
  t.false(isNotUpYet(error))
  t.is(
    rejectionOf(error),
    'the TLS connection to the database fails (certificate has expired): correct its certificate or DATABASE_URL, or add an authority with NODE_EXTRA_CA_CERTS',
  )
})

test('driver errors: a full disk, also that of temporary files, lets requests fail with unavailable', t => {
  for (const code of ['ER_DISK_FULL', 'ER_RECORD_FILE_FULL', 'EE_WRITE'])
    t.like(translate(Object.assign(new Error('no space left'), { code })), { code: 'unavailable' })
})
