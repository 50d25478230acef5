#!/usr/bin/env node
// The command line as a program of its own: started by any Node, it runs on the one that the packages bring.
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const own = fileURLToPath(new URL('../node_modules/.bin/node', import.meta.url))
const program = fileURLToPath(new URL('./commandLine.ts', import.meta.url))
const args = ['--disable-warning=ExperimentalWarning', program, ...process.argv.slice(2)]
const { status } = spawnSync(existsSync(own) ? own : process.execPath, args, { stdio: 'inherit' })
process.exit(status ?? 1)
