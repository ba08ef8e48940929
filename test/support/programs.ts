// Programs that only the tests and the trial of three nodes need.
import type { Program } from '../../src/cli/private-servers/programs.ts'

export const mariadbProgram: Program = {
  title: 'MariaDB',
  names: ['mariadbd'],
  debianPackage: 'mariadb-server-core',
  brewFormula: 'mariadb',
}

/** The library with which MariaDB servers form a cluster. */
export const galeraProgram: Program = {
  title: 'Galera',
  names: ['/usr/lib/galera/libgalera_smm.so', '/usr/lib64/galera-4/libgalera_smm.so'],
  debianPackage: 'galera-4',
}

export const haproxyProgram: Program = {
  title: 'HAProxy',
  names: ['haproxy'],
  debianPackage: 'haproxy',
  brewFormula: 'haproxy',
}
