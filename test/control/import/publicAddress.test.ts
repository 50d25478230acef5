import t from 'tap'
import { fetchable } from '../../../control/import/publicAddress.ts'
import { addresses } from '../../../gateway/addresses.ts'

const none = addresses([])

t.test('public addresses may be fetched from', async t => {
  for (const address of [
    '1.1.1.1',
    '8.8.8.8',
    '172.32.0.1',
    '192.0.1.1',
    '223.255.255.255',
    '2606:4700::1111',
    '2a00::1'
  ])
    t.ok(fetchable(address, none), address)
})

t.test('addresses that are not public may not, however they are written', async t => {
  for (const address of [
    '0.0.0.0',
    '10.1.2.3',
    '100.64.0.1',
    '127.0.0.1',
    '127.255.255.254',
    '169.254.169.254',
    '172.16.0.1',
    '172.31.255.255',
    '192.0.0.1',
    '192.0.2.1',
    '192.168.0.1',
    '198.18.0.1',
    '198.51.100.1',
    '203.0.113.1',
    '224.0.0.1',
    '240.0.0.1',
    '255.255.255.255',
    '::',
    '::1',
    '::7f00:1',
    '::127.0.0.1',
    '::ffff:127.0.0.1',
    '::ffff:7f00:1',
    '::ffff:8.8.8.8',
    '::ffff:0:127.0.0.1',
    '64:ff9b::7f00:1',
    '64:ff9b::8.8.8.8',
    '64:ff9b:1::1',
    '100::1',
    '2001::1',
    '2001:db8::1',
    '2002:7f00:1::',
    '3fff::1',
    '5f00::1',
    'fc00::1',
    'fd00:ec2::254',
    'fe80::1',
    'fe80::1%eth0',
    'fec0::1',
    'ff02::1',
    '',
    'localhost',
    '1.1.1.1:80'
  ])
    t.notOk(fetchable(address, none), address)
})

t.test('networks of the settings open, but never link-local ones', async t => {
  const open = addresses([
    '127.0.0.0/8',
    '10.0.0.0/8',
    'fd00::/8',
    '169.254.0.0/16',
    'fe80::/10',
    '64:ff9b::/96',
    '2002::/16',
    '::/96'
  ])
  for (const address of ['127.0.0.1', '10.9.8.7', 'fd00::1', '64:ff9b::7f00:1', '8.8.8.8', '::ffff:127.0.0.1'])
    t.ok(fetchable(address, open), address)
  for (const address of [
    '169.254.169.254',
    'fe80::1',
    'fe80::1%lo',
    '::ffff:169.254.169.254',
    '::ffff:a9fe:a9fe',
    '::169.254.169.254',
    '64:ff9b::a9fe:a9fe',
    '2002:a9fe:a9fe::1',
    '192.168.0.1'
  ])
    t.notOk(fetchable(address, open), address)
})
