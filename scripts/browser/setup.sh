# Sourced by scripts that need a browser, in the root of the repository: sets `browser` (Chromium) and `tools` (a folder with
# playwright-core and axe-core). Calls the function `missing` of the script with a reason where there is none.

browser=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}
[ -n "$browser" ] || missing "no Chromium found (Debian: apt-get install chromium; elsewhere set CHROMIUM)"
command -v node >/dev/null || missing "no node found"

tools=target/browser
mkdir -p "$tools"
if [ ! -d "$tools/node_modules/playwright-core" ] || [ ! -d "$tools/node_modules/axe-core" ]; then
    command -v npm >/dev/null || missing "no npm found"
    npm install --silent --no-package-lock --no-save --prefix "$tools" playwright-core@1 axe-core@4 ||
        missing "playwright-core and axe-core could not be installed"
fi
