// URLs with one or several hosts, and the database name in them.
import test from 'ava'
import { databaseNameOf, hostOf, hostUrls, withDatabase } from '../../../src/config/host-urls.ts'

test('database URL: one URL for each host', t => {
  t.deepEqual(hostUrls('mysql://user:pw@a:3306,b:3307/users?ssl={}'), [
    'mysql://user:pw@a:3306/users?ssl={}',
    'mysql://user:pw@b:3307/users?ssl={}',
  ])
  t.deepEqual(hostUrls('mysql://u:a,b@c@[::1]:3306,[::2]/users').map(hostOf), ['[::1]:3306', '[::2]'])
  for (const url of ['mysql://root@localhost/users?socketPath=/a,b', 'mysql:///users', 'mysql://a'])
    t.deepEqual(hostUrls(url), [url])
})

test('database URL: the name of the database is replaced', t => {
  const url = 'mysql://user:pw@a,b:3307/us%20ers?ssl={}'
  t.is(databaseNameOf(url), 'us ers')
  t.is(withDatabase(url, ''), 'mysql://user:pw@a,b:3307/?ssl={}')
  t.is(withDatabase(url, 'x/y'), 'mysql://user:pw@a,b:3307/x%2Fy?ssl={}')
})
