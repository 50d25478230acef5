// Loaded by --import before gateway/main.ts, also by a Node that cannot read TypeScript: that one gets a sentence instead of a
// TypeError. And a signal that comes while the modules are still loading is answered here, until main.ts takes over.
// Nothing of this is needed to run: `node gateway/main.ts` works without it.

/** Below this Node does not strip types and has no `node:sqlite`. */
const NEEDED_NODE = 24

if (Number(process.versions.node.split('.')[0]) < NEEDED_NODE) {
  console.error(
    `Node ${process.versions.node} is too old for the gateway. "npm start" brings the right one along; node_modules/.bin/node gateway/main.ts uses it.`
  )
  process.exit(2)
}

const early = {
  SIGTERM: () => process.exit(0),
  SIGINT: () => process.exit(0),
  // Whoever is still starting reads everything anyway.
  SIGHUP: () => {}
}
for (const [signal, answer] of Object.entries(early)) process.on(signal, answer)
