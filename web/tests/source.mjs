// Modules of the page's sources, for tests that need no browser.

import { build } from "esbuild";

/** A module of `web/src` by its name. */
export async function source(name) {
  const { outputFiles } = await build({ entryPoints: [new URL(`../src/${name}.ts`, import.meta.url).pathname], bundle: true, format: "esm", write: false });
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString("base64")}`);
}
