// The constant response of the baselines that measure the upper limit: as long as that of a user with groups.

export const constantUser = {
  id: 500,
  first_name: 'Given17',
  last_name: 'Family00000500',
  groups: [
    { id: 7, name: 'Division 7' },
    { id: 29, name: 'Team 000019' },
    { id: 30, name: 'Team 000020' },
  ],
  meta: { status: 200 },
}
