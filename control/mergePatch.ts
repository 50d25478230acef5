import { isRaw } from '../config/exactJson.ts'

/** JSON Merge Patch (RFC 7396 §2): members of the patch replace, null takes out, objects go into each other. */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isMembers(patch)) return patch
  const merged: Record<string, unknown> = isMembers(target) ? { ...target } : {}
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete merged[name]
    else merged[name] = mergePatch(Object.hasOwn(merged, name) ? merged[name] : undefined, value)
  }
  return merged
}

function isMembers(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !isRaw(value)
}
