import type {
  NewPortalUser,
  PortalOrganisation,
  PortalTeam,
  PortalTeamChange,
  PortalUser,
  PortalUserChange
} from '../../config/shape/portal.ts'
import { Refused } from '../endpoint.ts'
import {
  DEFAULT_ORGANISATION,
  defaultTeamName,
  MOST_MEMBERS,
  MOST_TEAMS,
  type OrganisationRecord,
  type TeamRecord,
  type Unit
} from './unit.ts'

/** Organisations of the portal, their teams and their members (semantics §9). */

/** An id out of a path. @throws Refused 400 where it is no number, 404 where it is none that was ever given */
export function numberOf(text: string, what: string): number {
  if (!/^\d{1,40}$/.test(text)) throw new Refused(400, `the id of ${what} is a whole number`)
  const id = Number(text)
  if (id < 1 || id > Number.MAX_SAFE_INTEGER) throw new Refused(404, `${what} not found`)
  return id
}

/** @throws Refused 404 */
export async function organisationOf(unit: Unit, id: number): Promise<OrganisationRecord> {
  const record = await unit.organisation(id)
  if (record === null) throw new Refused(404, 'organisation not found')
  return record
}

/** An organisation as its readers see it. */
export async function shown(unit: Unit, record: OrganisationRecord): Promise<PortalOrganisation> {
  const { ID, Name, CreatedAt, UpdatedAt, Teams, Users } = record
  const members = await Promise.all(Users.map(id => unit.user(id)))
  return {
    ID,
    Name,
    CreatedAt,
    UpdatedAt,
    Teams: Teams.map(({ Default, ID, Name }) => ({ Default, ID, Name })),
    Users: members.filter(member => member !== null)
  }
}

export async function createOrganisation(unit: Unit, Name: string): Promise<OrganisationRecord> {
  const team = { Default: true, ID: await unit.newId('team'), Name: defaultTeamName(Name), Users: [] }
  const at = unit.now
  const ID = await unit.newId('organisation')
  return put(unit, { ID, Name, CreatedAt: at, UpdatedAt: at, Users: [], Teams: [team] })
}

/** The default team goes along, while it bears the organisation's name. */
export function renameOrganisation(unit: Unit, record: OrganisationRecord, Name: string): OrganisationRecord {
  const renamed = (team: TeamRecord) =>
    team.Default && team.Name === defaultTeamName(record.Name) ? { ...team, Name: defaultTeamName(Name) } : team
  return put(unit, { ...record, Name, UpdatedAt: unit.now, Teams: record.Teams.map(renamed) })
}

/** Its members move to the default organisation. @throws Refused 409 */
export async function removeOrganisation(unit: Unit, record: OrganisationRecord): Promise<void> {
  if (record.ID === DEFAULT_ORGANISATION) throw new Refused(409, 'the default organisation cannot be deleted')
  const home = await organisationOf(unit, DEFAULT_ORGANISATION)
  const members = await Promise.all(record.Users.map(id => unit.user(id)))
  for (const user of members) if (user !== null) unit.putUser({ ...user, OrganisationID: DEFAULT_ORGANISATION })
  if (record.Users.length > 0) put(unit, { ...home, Users: [...home.Users, ...record.Users] })
  unit.removeOrganisation(record.ID)
}

/** @throws Refused 404 */
export function teamOf({ Teams }: OrganisationRecord, id: number): TeamRecord {
  const team = Teams.find(({ ID }) => ID === id)
  if (team === undefined) throw new Refused(404, 'team not found')
  return team
}

export function shownTeam({ Users }: OrganisationRecord, team: TeamRecord): PortalTeam {
  return { Default: team.Default, ID: team.ID, Name: team.Name, Users: [...(team.Default ? Users : team.Users)] }
}

/** @throws Refused 400, 409 */
export async function createTeam(
  unit: Unit,
  record: OrganisationRecord,
  { Name, Users = [] }: { readonly Name: string; readonly Users?: readonly number[] }
): Promise<{ readonly record: OrganisationRecord; readonly team: TeamRecord }> {
  if (record.Teams.length >= MOST_TEAMS) throw new Refused(409, `an organisation has at most ${MOST_TEAMS} teams`)
  const team = { Default: false, ID: await unit.newId('team'), Name, Users: membersOf(record, Users) }
  return { record: put(unit, { ...record, UpdatedAt: unit.now, Teams: [...record.Teams, team] }), team }
}

/** @throws Refused 400 */
export function changeTeam(unit: Unit, record: OrganisationRecord, team: TeamRecord, change: PortalTeamChange) {
  if (team.Default && change.Users !== undefined && !sameIds(change.Users, record.Users))
    throw new Refused(400, 'everybody of the organisation is in its default team')
  const Users = team.Default ? [] : membersOf(record, change.Users ?? team.Users)
  const after: TeamRecord = { ...team, Name: change.Name ?? team.Name, Users }
  const Teams = record.Teams.map(other => (other === team ? after : other))
  return { record: put(unit, { ...record, UpdatedAt: unit.now, Teams }), team: after }
}

/** Its members are in the default team as well, and stay there. @throws Refused 409 */
export function removeTeam(unit: Unit, record: OrganisationRecord, team: TeamRecord): void {
  if (team.Default) throw new Refused(409, 'the default team cannot be deleted')
  put(unit, { ...record, UpdatedAt: unit.now, Teams: record.Teams.filter(other => other !== team) })
}

/** @throws Refused 404 */
export async function userOf(unit: Unit, id: number): Promise<PortalUser> {
  const user = await unit.user(id)
  if (user === null) throw new Refused(404, 'user not found')
  return user
}

/** @throws Refused 400, 409 */
export async function createUser(unit: Unit, given: NewPortalUser): Promise<PortalUser> {
  const user: PortalUser = {
    Active: true,
    First: '',
    Last: '',
    Role: 'consumer-team-member',
    Provider: 'password',
    OrganisationID: DEFAULT_ORGANISATION,
    ...given,
    ID: await unit.newId('user')
  }
  await takeEmail(unit, user)
  await enter(unit, user)
  unit.putUser(user)
  return user
}

/** Who moves to another organisation leaves the teams of the old one. @throws Refused 400, 409 */
export async function changeUser(unit: Unit, before: PortalUser, change: PortalUserChange): Promise<PortalUser> {
  const user: PortalUser = { ...before, ...change, ID: before.ID }
  if (user.Email.toLowerCase() !== before.Email.toLowerCase()) {
    await releaseEmail(unit, before)
    await takeEmail(unit, user)
  }
  if (user.OrganisationID !== before.OrganisationID) {
    await leave(unit, before)
    await enter(unit, user)
  }
  unit.putUser(user)
  return user
}

export async function removeUser(unit: Unit, user: PortalUser): Promise<void> {
  await releaseEmail(unit, user)
  await leave(unit, user)
  unit.removeUser(user.ID)
}

function put(unit: Unit, record: OrganisationRecord): OrganisationRecord {
  unit.putOrganisation(record)
  return record
}

/** @throws Refused 400 */
function membersOf({ Users }: OrganisationRecord, ids: readonly number[]): number[] {
  const members = new Set(Users)
  const stranger = ids.find(id => !members.has(id))
  if (stranger !== undefined) throw new Refused(400, `user ${stranger} is not in this organisation`)
  return [...new Set(ids)]
}

function sameIds(some: readonly number[], others: readonly number[]): boolean {
  const ids = new Set(some)
  return ids.size === others.length && others.every(id => ids.has(id))
}

async function takeEmail(unit: Unit, { ID, Email }: PortalUser): Promise<void> {
  if ((await unit.email(Email)) !== null) throw new Refused(409, 'a user of this e-mail address exists already')
  unit.putEmail(Email, ID)
}

async function releaseEmail(unit: Unit, { Email }: PortalUser): Promise<void> {
  await unit.email(Email)
  unit.putEmail(Email, null)
}

async function enter(unit: Unit, { ID, OrganisationID }: PortalUser): Promise<void> {
  const record = await unit.organisation(OrganisationID)
  if (record === null) throw new Refused(400, `there is no organisation ${OrganisationID}`)
  if (record.Users.length >= MOST_MEMBERS) throw new Refused(409, `an organisation has at most ${MOST_MEMBERS} members`)
  put(unit, { ...record, Users: [...record.Users, ID] })
}

async function leave(unit: Unit, { ID, OrganisationID }: PortalUser): Promise<void> {
  const record = await unit.organisation(OrganisationID)
  if (record === null) return
  const others = (ids: readonly number[]) => ids.filter(id => id !== ID)
  put(unit, {
    ...record,
    Users: others(record.Users),
    Teams: record.Teams.map(team => ({ ...team, Users: others(team.Users) }))
  })
}
