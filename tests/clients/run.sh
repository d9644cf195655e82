#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Real clients on an embedded database: the bindings people install from their package registries,
# unmodified, loading the libfdb_c.so in LIBDIR.
#
#   tests/clients/run.sh LIBDIR                 all of them
#   tests/clients/run.sh LIBDIR python go ...   only these
#   tests/clients/run.sh LIBDIR stack           only the stack machine, which is one of Python's
#   tests/clients/run.sh LIBDIR joined          only the runs on a database that another process owns
#
# What is installed lies under build/clients (KEEL_CLIENTS names another place), so a second run
# downloads and compiles nothing. A missing toolchain is installed with apt where that is possible;
# a client that cannot be had counts as failed, with the reason. Every check is one line, `ok - ` or
# `not ok - `; what failed is said again at the end, and the last line of all is `N passed, N failed`.
#
# A client program is run four times, each a process of its own: on a fresh database given by path,
# again on what it left there, on the default database of a fresh working directory, and again. It
# prints `ok - ` and `not ok - ` lines and ends with `finished`; one that ends without it, by a
# crash or the time limit, has failed once more.
#
# Python's, npm's and Go's are then run on databases that another process owns, `keel serve` of
# LIBDIR/../bin: once given the path of one and once the cluster file of another, over TCP; what was
# left is read again by the other way. README.md's lines for Python are run as they stand.
#
# The layers of libkeel, in LIBDIR too, are run against those of the Python binding: each writes what
# the other checks, and both run the same programs of the binding tester's stack machine
# (tests/stacktester).
#
# The tests the bindings themselves ship are run too, npm's and Go's: all of them, none is excluded.

set -u

usage="usage: $0 LIBDIR [python|node|go|java|rust|stack|joined]..."
LIBDIR=$(cd "${1:?$usage}" 2>/dev/null && pwd) || { echo "$0: no directory $1" >&2; exit 2; }
shift
CLIENTS=("$@")
[ ${#CLIENTS[@]} -gt 0 ] || CLIENTS=(python node go java rust joined)
HERE=$(cd "$(dirname "$0")" && pwd)
ROOT=$(cd "$HERE/../.." && pwd)
CACHE=${KEEL_CLIENTS:-$ROOT/build/clients}
mkdir -p "$CACHE" && CACHE=$(cd "$CACHE" && pwd) || exit 2
RUNS=$CACHE/runs
LOGS=$CACHE/logs

# The versions. Python runs as `binding:API version`: every line of releases that still loads on a
# current Python, the newest at the oldest API version Keel supports as well.
PYTHON_RUNS=(7.4.8:740 7.4.8:510 7.3.79:730 7.1.67:710 6.3.25:630 6.0.18:600)
PYTHON_SCHEDULING=7.4.8
PYTHON_STACKTESTER=7.4.8
PYTHON_JOINED=7.4.8 PYTHON_JOINED_API=740
PYTHON_README=7.3.79 # whose newest API version it names
PYTHON_LAYERS_RUNS=(7.4.8:740 6.3.25:630)
PYTHON_SETUPTOOLS=75.6.0
JAVA_RUNS=(7.4.1:740 7.1.37:710)
MAVEN_DEPENDENCY_PLUGIN=org.apache.maven.plugins:maven-dependency-plugin:3.8.1
RUST_MINOR_MIN=85
# npm's and Go's are in node/package-lock.json and go/go.mod, Rust's in rust/Cargo.lock.

SECONDS_MAX=600         # one run of one client; for one that hangs
INSTALL_SECONDS_MAX=900 # one installation or build
INSTALL_ATTEMPTS=3      # a registry may be busy

passed=0
failed=0
failures=()

say() { printf '\n== %s\n' "$*"; }

pass() {
    passed=$((passed + 1))
    printf 'ok - %s\n' "$1"
}

fail() {
    failed=$((failed + 1))
    failures+=("$1")
    printf 'not ok - %s\n' "$1"
}

# --- installing ---

# install NAME COMMAND...: runs a build step quietly, again if it fails; its last lines are shown if it does so always.
install() {
    local name=$1 log=$LOGS/install-${1//[^A-Za-z0-9.]/-}.log attempt
    shift
    for attempt in $(seq $INSTALL_ATTEMPTS); do
        timeout "$INSTALL_SECONDS_MAX" "$@" >"$log" 2>&1 && return 0
        sleep $((attempt * 2))
    done
    tail -n 15 "$log" | sed 's/^/    /'
    fail "$name: cannot be installed or built: $(grep '[^ ]' "$log" | tail -n 1 | cut -c1-200)"
    return 1
}

# need NAME COMMAND PACKAGE...: the command, from Debian if it is not there.
need() {
    local name=$1 command=$2
    shift 2
    command -v "$command" >/dev/null 2>&1 && return 0
    "$ROOT/tools/install_packages.sh" "$@" && command -v "$command" >/dev/null 2>&1 && return 0
    fail "$name: cannot be installed: $command is missing (Debian: $*)"
    return 1
}

# --- running ---

# keep NAME LOG: counts and shows the checks in a log; anything else it says is shown indented.
keep() {
    local name=$1 line
    while IFS= read -r line; do
        case $line in
        'ok - '*) pass "$name: ${line#ok - }" ;;
        'not ok - '*) fail "$name: ${line#not ok - }" ;;
        finished | '') ;;
        *) printf '    %s\n' "$line" ;;
        esac
    done <"$2"
}

# run NAME DIRECTORY COMMAND...: one process in that directory, its checks counted.
run() {
    local name=$1 directory=$2 log=$LOGS/${1//[^A-Za-z0-9.]/-}.log status bad
    shift 2
    mkdir -p "$directory"
    (cd "$directory" && exec timeout --kill-after=5 "$SECONDS_MAX" \
        env LD_LIBRARY_PATH="$LIBDIR" "$@") >"$log" 2>&1
    status=$?
    keep "$name" "$log"
    bad=$(grep -c '^not ok - ' "$log")
    if [ $status -eq 124 ]; then
        fail "$name: not done after $SECONDS_MAX seconds"
    elif ! grep -qx finished "$log"; then
        fail "$name: ended before its end, status $status"
    elif [ $status -ne 0 ] && [ "$bad" -eq 0 ]; then
        fail "$name: every check passed, then it ended with status $status"
    fi
}

# client NAME COMMAND...: the four runs; PATH and --again are appended.
client() {
    local name=$1 directory=$RUNS/${1//[^A-Za-z0-9.]/-}
    shift
    rm -rf "$directory"
    run "$name, by path" "$directory/path" "$@" "$directory/path/database"
    if [ -d "$directory/path/database" ]; then
        pass "$name, by path: the directory is the database"
    else
        fail "$name, by path: no directory at the path given"
    fi
    run "$name, by path again" "$directory/path" "$@" "$directory/path/database" --again
    run "$name, by default" "$directory/default" "$@" -
    if [ -d "$directory/default/keel.db" ]; then
        pass "$name, by default: the database is ./keel.db"
    else
        fail "$name, by default: no ./keel.db"
    fi
    run "$name, by default again" "$directory/default" "$@" - --again
}

# --- databases that another process owns ---

KEEL=$LIBDIR/../bin/keel
OWNERS=()

# own NAME DIRECTORY: a process that serves a new database there, on the socket and over TCP; its cluster file is DIRECTORY.cluster.
own() {
    local log=$2.log
    mkdir -p "$(dirname "$2")"
    "$KEEL" serve "$2" --listen 127.0.0.1:0 >"$log" 2>&1 &
    OWNERS+=($!)
    for _ in $(seq 6000); do
        grep -q '^ready: ' "$log" && return 0
        kill -0 $! 2>/dev/null || break
        sleep 0.05
    done
    sed 's/^/    /' "$log"
    fail "$1: keel serve does not get ready"
    return 1
}

# They must have been there all the time: who had found nobody would have opened the files itself.
end_owners() {
    local name=$1 owner
    for owner in "${OWNERS[@]}"; do
        if ! kill "$owner" 2>/dev/null; then
            fail "$name: the owner ended too soon"
        elif wait "$owner"; then
            pass "$name: the owner served to the end"
        else
            fail "$name: the owner ended with status $?"
        fi
    done
    OWNERS=()
}
trap 'for owner in "${OWNERS[@]}"; do kill "$owner" 2>/dev/null; done' EXIT

# joined NAME COMMAND...: everything by path, everything over TCP, and what each left by the other way.
joined() {
    local name=$1 directory=$RUNS/joined-${1//[^A-Za-z0-9.]/-}
    shift
    rm -rf "$directory"
    if own "$name, joined" "$directory/one" && own "$name, joined" "$directory/two"; then
        run "$name, joined by path" "$directory" "$@" "$directory/one"
        run "$name, joined over TCP" "$directory" "$@" "$directory/two.cluster"
        run "$name, joined by path again" "$directory" "$@" "$directory/two" --again
        run "$name, joined over TCP again" "$directory" "$@" "$directory/one.cluster" --again
    fi
    end_owners "$name, joined"
}

joined_client() {
    if [ ! -x "$KEEL" ]; then
        fail "joined: no $KEEL"
        return
    fi
    python_install && joined "python $PYTHON_JOINED" env PYTHONPATH="$CACHE/python/$PYTHON_JOINED" \
        PYTHONDONTWRITEBYTECODE=1 "$CACHE/python/venv/bin/python" "$HERE/python/client.py" "$PYTHON_JOINED_API"
    node_install && joined "node" env NODE_PATH="$CACHE/node/node_modules" node "$HERE/node/client.js"
    go_install && joined "go" "$CACHE/go/client"
}

# --- Python ---

python_install() {
    local venv=$CACHE/python/venv version
    if [ ! -x "$venv/bin/pip" ]; then
        need python python3 python3 || return 1
        if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
            "$ROOT/tools/install_packages.sh" python3-venv || true
        fi
        rm -rf "$venv"
        install python python3 -m venv "$venv" || return 1
        install python "$venv/bin/pip" install -q "setuptools==$PYTHON_SETUPTOOLS" || return 1
    fi
    for version in $(printf '%s\n' "$PYTHON_SCHEDULING" "$PYTHON_STACKTESTER" "$PYTHON_JOINED" "$PYTHON_README" \
        "${PYTHON_RUNS[@]%:*}" | sort -u); do
        [ -e "$CACHE/python/$version/.installed" ] && continue
        rm -rf "${CACHE:?}/python/$version"
        install "python $version" "$venv/bin/pip" install -q --no-deps --no-build-isolation \
            --target "$CACHE/python/$version" "foundationdb==$version" || continue
        touch "$CACHE/python/$version/.installed"
    done
}

python_client() {
    local entry version api python=$CACHE/python/venv/bin/python
    python_install || return
    for entry in "${PYTHON_RUNS[@]}"; do
        version=${entry%:*} api=${entry#*:}
        [ -e "$CACHE/python/$version/.installed" ] || continue
        client "python $version (API $api)" env PYTHONPATH="$CACHE/python/$version" \
            PYTHONDONTWRITEBYTECODE=1 "$python" "$HERE/python/client.py" "$api"
    done
    [ -e "$CACHE/python/$PYTHON_SCHEDULING/.installed" ] || return
    rm -rf "$RUNS/scheduling"
    run "python $PYTHON_SCHEDULING" "$RUNS/scheduling" \
        env PYTHONPATH="$CACHE/python/$PYTHON_SCHEDULING" PYTHONDONTWRITEBYTECODE=1 \
        "$python" "$HERE/python/scheduling_test.py"
    python_readme
    python_layers
    python_directories
    python_stacktester
    python_recipes
}

# The lines of README.md for Python: the shell command there, with the library and the binding of this run.
python_readme() {
    local directory=$RUNS/readme name="README's Python" said
    rm -rf "$directory"
    mkdir -p "$directory/bin" "$directory/build"
    ln -s "$LIBDIR" "$directory/build/lib"
    ln -s "$CACHE/python/venv/bin/python" "$directory/bin/python3"
    sed -n '/^    LD_LIBRARY_PATH=/,/^$/s/^    //p' "$ROOT/README.md" >"$directory/lines.sh"
    said=$(cd "$directory" && PATH="$directory/bin:$PATH" PYTHONPATH="$CACHE/python/$PYTHON_README" PYTHONDONTWRITEBYTECODE=1 \
        timeout "$SECONDS_MAX" bash -e lines.sh 2>&1)
    if [ "$said" = "b'world'" ] && [ -d "$directory/my.db" ]; then
        pass "$name: it says $said"
    else
        fail "$name: it says $(echo $said | cut -c1-300)"
    fi
}

# Each side writes a database, which the other checks and extends, and which the first checks then.
python_layers() {
    local entry version api name directory python
    mkdir -p "$CACHE/layers"
    install "layers interop" "${CC:-cc}" -std=gnu11 -O1 -g "-I$ROOT/include" \
        "$ROOT/tests/layers/interop.c" -o "$CACHE/layers/interop" "-L$LIBDIR" -lkeel -lfdb_c \
        "-Wl,-rpath-link,$LIBDIR" || return
    for entry in "${PYTHON_LAYERS_RUNS[@]}"; do
        version=${entry%:*} api=${entry#*:}
        [ -e "$CACHE/python/$version/.installed" ] || continue
        name="layers, python $version (API $api)"
        directory=$RUNS/layers-$version
        python=(env PYTHONPATH="$CACHE/python/$version" PYTHONDONTWRITEBYTECODE=1
            "$CACHE/python/venv/bin/python" "$HERE/python/layers_interop.py" "$api")
        run "$name: C writes" "$directory" "$CACHE/layers/interop" write from-c
        run "$name: Python checks" "$directory" "${python[@]}" check from-c
        run "$name: C checks again" "$directory" "$CACHE/layers/interop" check from-c
        run "$name: Python writes" "$directory" "${python[@]}" write from-python
        run "$name: C checks" "$directory" "$CACHE/layers/interop" check from-python
        run "$name: Python checks again" "$directory" "${python[@]}" check from-python
    done
}

# The same operations by the directory layers of both, side by side in one process.
python_directories() {
    local seed
    for seed in 1 2 3; do
        rm -rf "$RUNS/directories"
        run "directories, seed $seed" "$RUNS/directories" \
            env PYTHONPATH="$CACHE/python/$PYTHON_STACKTESTER" PYTHONDONTWRITEBYTECODE=1 \
            "$CACHE/python/venv/bin/python" "$ROOT/tests/layers/directory_differential.py" "$seed" 300
    done
}

# The stack machine of the binding tester, ours and one on the Python binding, on the same programs.
python_stacktester() {
    local tester=$LIBDIR/../bin/keel-stacktester
    if [ ! -x "$tester" ]; then
        fail "stack machine: no $tester"
        return
    fi
    rm -rf "$RUNS/stacktester"
    run "stack machine" "$RUNS/stacktester" \
        env PYTHONPATH="$CACHE/python/$PYTHON_STACKTESTER" PYTHONDONTWRITEBYTECODE=1 \
        "$CACHE/python/venv/bin/python" "$ROOT/tests/stacktester/harness.py" "$tester"
}

stack_client() {
    python_install && python_stacktester
}

# Each recipe that the documents give in Python: what one side writes, the other checks.
python_recipes() {
    local script name program python
    mkdir -p "$CACHE/recipes"
    rm -rf "$RUNS/recipes"
    for script in "$HERE"/python/recipe_*.py; do
        name=$(basename "$script" .py)
        name=${name#recipe_}
        program=$CACHE/recipes/$name
        install "recipe $name" "${CC:-cc}" -std=gnu11 -O1 -g "-I$ROOT/include" \
            "$ROOT/tests/recipes/interop_$name.c" -o "$program" "-L$LIBDIR" -lkeel -lfdb_c -lm \
            "-Wl,-rpath-link,$LIBDIR" || continue
        python=(env PYTHONPATH="$CACHE/python/$PYTHON_STACKTESTER" PYTHONDONTWRITEBYTECODE=1
            "$CACHE/python/venv/bin/python" "$script" 740)
        run "recipe $name: C writes" "$RUNS/recipes/$name" "$program" write from-c
        run "recipe $name: Python checks" "$RUNS/recipes/$name" "${python[@]}" check from-c
        run "recipe $name: Python writes" "$RUNS/recipes/$name" "${python[@]}" write from-python
        run "recipe $name: C checks" "$RUNS/recipes/$name" "$program" check from-python
        grep -q ' rest DATABASE' "$script" || continue # what is left after the check, for the writer
        run "recipe $name: C takes the rest" "$RUNS/recipes/$name" "$program" rest from-c
        run "recipe $name: Python takes the rest" "$RUNS/recipes/$name" "${python[@]}" rest from-python
    done
}

# --- npm ---

node_install() {
    local modules=$CACHE/node/node_modules
    need node npm nodejs npm || return 1
    cmp -s "$HERE/node/package-lock.json" "$modules/.installed" && return 0
    rm -rf "$CACHE/node"
    mkdir -p "$CACHE/node"
    cp "$HERE/node/package.json" "$HERE/node/package-lock.json" "$CACHE/node/"
    # The package's install script probes its prebuilt half, or compiles another: not wanted here.
    install node npm ci --prefix "$CACHE/node" --ignore-scripts --no-audit --no-fund || return 1
    cp "$HERE/node/package-lock.json" "$modules/.installed"
}

# mocha's TAP output as lines of ours; what the package itself skips is not a test.
node_shipped_tests() {
    "$CACHE/node/node_modules/.bin/mocha" --exit --timeout 300000 --reporter tap \
        "$CACHE"/node/node_modules/foundationdb/dist/test/*.js 2>&1 |
        sed -E -e '/^ok [0-9]+ .* # SKIP/d' -e '/^[0-9]+\.\.[0-9]+$/d' \
            -e 's/^(ok|not ok) [0-9]+ /\1 - /' -e 's/^# fail [0-9]+$/finished/' \
            -e '/^# (tests|pass) /d'
    return "${PIPESTATUS[0]}"
}

node_client() {
    node_install || return
    client "node" env NODE_PATH="$CACHE/node/node_modules" node "$HERE/node/client.js"
    rm -rf "$RUNS/node-shipped"
    export -f node_shipped_tests
    run "node, shipped tests" "$RUNS/node-shipped" env CACHE="$CACHE" bash -c node_shipped_tests
}

# --- Go ---

go_build() {
    cd "$HERE/go" && go build -o "$CACHE/go/client" . &&
        go test -c -o "$CACHE/go/fdb.test" github.com/apple/foundationdb/bindings/go/src/fdb
}

go_shipped_tests() {
    "$CACHE/go/fdb.test" -test.v 2>&1 |
        sed -E -e 's/^ *--- PASS: ([^ ]+).*/ok - \1/' -e 's/^ *--- FAIL: ([^ ]+).*/not ok - \1/' \
            -e 's/^(PASS|FAIL)$/finished/' -e '/^=== /d'
    return "${PIPESTATUS[0]}"
}

go_install() {
    need go go golang-go || return 1
    mkdir -p "$CACHE/go"
    export -f go_build go_shipped_tests
    install go env HERE="$HERE" CACHE="$CACHE" GOPATH="$CACHE/go/path" GOCACHE="$CACHE/go/cache" \
        GOFLAGS="-mod=readonly -modcacherw -buildvcs=false" GOTOOLCHAIN=local CGO_ENABLED=1 \
        CGO_CFLAGS="-I$ROOT/include" CGO_LDFLAGS="-L$LIBDIR" bash -c go_build
}

go_client() {
    go_install || return
    client "go" "$CACHE/go/client"
    rm -rf "$RUNS/go-shipped"
    run "go, shipped tests" "$RUNS/go-shipped" env CACHE="$CACHE" bash -c go_shipped_tests
}

# --- Java ---

java_client() {
    local entry version api jar classes
    need java javac default-jdk-headless || return
    for entry in "${JAVA_RUNS[@]}"; do
        version=${entry%:*} api=${entry#*:}
        jar=$CACHE/java/fdb-java-$version.jar classes=$CACHE/java/classes-$version
        if [ ! -e "$jar" ]; then
            need java mvn maven || return
            install "java $version" mvn -q -B "$MAVEN_DEPENDENCY_PLUGIN:copy" \
                "-Dartifact=org.foundationdb:fdb-java:$version" \
                "-DoutputDirectory=$CACHE/java" || continue
        fi
        install "java $version" javac -Xlint:all -d "$classes" -cp "$jar" \
            "$HERE/java/Client.java" || continue
        client "java $version (API $api)" java -Xmx512m -Djava.io.tmpdir="$CACHE/java" \
            -cp "$classes:$jar" Client "$api"
    done
    rm -f "$CACHE"/java/fdb_java*.so "$CACHE"/java/*libfdb_java*
}

# --- Rust ---

# bindgen loads libclang and clang's own headers.
rust_libclang() {
    if find /usr/lib /usr/local/lib -name 'libclang*.so*' 2>/dev/null | grep -q . &&
        find /usr/lib /usr/local/lib -path '*clang/*/include/stddef.h' 2>/dev/null | grep -q .; then
        return 0
    fi
    "$ROOT/tools/install_packages.sh" libclang-dev && return 0
    fail "rust: cannot be built: bindgen needs libclang (Debian: libclang-dev)"
    return 1
}

rust_client() {
    local minor
    need rust cargo cargo || return
    minor=$(cargo --version | sed -E 's/^cargo 1\.([0-9]+).*/\1/')
    if ! [ "$minor" -ge $RUST_MINOR_MIN ] 2>/dev/null; then
        fail "rust: cannot be built: the crate needs Rust 1.$RUST_MINOR_MIN (rustup), not 1.$minor"
        return
    fi
    rust_libclang || return
    install rust env FDB_CLIENT_LIB_PATH="$LIBDIR" CARGO_TARGET_DIR="$CACHE/rust" \
        cargo build --locked --manifest-path "$HERE/rust/Cargo.toml" || return
    client "rust" "$CACHE/rust/debug/client"
}

# --- all of them ---

if [ ! -e "$LIBDIR/libfdb_c.so" ]; then
    fail "no libfdb_c.so in $LIBDIR"
    printf '%d passed, %d failed\n' $passed $failed
    exit 1
fi
# Nothing in the environment may turn the default database into another one.
unset FDB_CLUSTER_FILE
for variable in $(compgen -e | grep '^FDB_NETWORK_OPTION_'); do unset "$variable"; done
if [ -e /etc/foundationdb/fdb.cluster ]; then
    echo "note: /etc/foundationdb/fdb.cluster exists, so the default database is that cluster" >&2
fi

rm -rf "$RUNS" "$LOGS"
mkdir -p "$RUNS" "$LOGS"
for name in "${CLIENTS[@]}"; do
    case $name in
    python | node | go | java | rust | stack | joined) say "$name" && "${name}_client" ;;
    *) fail "no such client: $name" ;;
    esac
done
rm -rf "$RUNS"

echo
[ $failed -eq 0 ] || printf 'not ok - %s\n' "${failures[@]}"
printf '%d passed, %d failed\n' $passed $failed
[ $failed -eq 0 ]
