"""The frame of the report's page: its style, for light and dark, for a desk and a phone. Nothing is fetched."""

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
:root { --ink: #1b1c1e; --paper: #fdfdfc; --soft: #63666b; --line: #d9dadd; --band: #f2f3f5; --link: #0b5cad; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e7ea; --paper: #16181b; --soft: #9ea2a9; --line: #383b41; --band: #1f2226; --link: #7db7f5; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1.25rem 4rem; max-width: 76rem; color: var(--ink); background: var(--paper);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .5rem; }
h2 { font-size: 1.35rem; margin: 2.5rem 0 .25rem; padding-top: 1rem; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.75rem 0 .4rem; }
a { color: var(--link); margin-right: 1rem; }
p { margin: .4rem 0; } p, summary, li { color: var(--soft); } b { color: var(--ink); font-weight: 600; }
figure { margin: 1rem 0; overflow-x: auto; color: var(--ink); }
figure svg { display: block; width: 100%; height: auto; }
.wide { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; }
table { border-collapse: collapse; width: 100%; font-size: .875rem; font-variant-numeric: tabular-nums; }
th, td { padding: .4rem .7rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
th { font-weight: 600; } tbody tr:last-child > * { border-bottom: 0; }
th:first-child { text-align: left; position: sticky; left: 0; background: var(--paper); }
thead th, thead th:first-child { background: var(--band); }
.published > * { color: var(--soft); font-weight: 400; }
details { margin-top: 1rem; } summary { cursor: pointer; font-weight: 600; color: var(--ink); }
ul { margin: .5rem 0; padding-left: 1.2rem; font-size: .875rem; }
@media (max-width: 40rem) {
  body { padding: 1rem .8rem 3rem; }
  th:first-child { white-space: normal; overflow-wrap: normal; max-width: 9.5rem; }
}
</style>
</head>
<body>
{body}
</body>
</html>
"""
