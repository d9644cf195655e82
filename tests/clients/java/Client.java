// SPDX-License-Identifier: Apache-2.0

import com.apple.foundationdb.Database;
import com.apple.foundationdb.FDB;
import com.apple.foundationdb.FDBException;
import com.apple.foundationdb.KeySelector;
import com.apple.foundationdb.KeyValue;
import com.apple.foundationdb.LocalityUtil;
import com.apple.foundationdb.MutationType;
import com.apple.foundationdb.Range;
import com.apple.foundationdb.StreamingMode;
import com.apple.foundationdb.Transaction;
import com.apple.foundationdb.directory.DirectoryLayer;
import com.apple.foundationdb.directory.DirectorySubspace;
import com.apple.foundationdb.subspace.Subspace;
import com.apple.foundationdb.tuple.Tuple;
import com.apple.foundationdb.tuple.Versionstamp;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

/**
 * The official Java binding on an embedded database.
 *
 * <pre>
 *   Client API_VERSION PATH           everything, on a fresh database (PATH `-`: the default one)
 *   Client API_VERSION PATH --again   what the first run left, read by a second process
 * </pre>
 *
 * The jar is the published one, with its own native half; only libfdb_c.so is Keel's. One line a
 * check, then `finished`, which tells a program that ran to its end from one that was cut short.
 */
public final class Client {
    private static final int ROWS = 1000;
    private static final int TASKS = 16;
    private static final int INCREMENTS_PER_TASK = 15;
    private static final int WAIT_SECONDS_MAX = 200;

    private static Database db;
    private static int failures;

    private interface Body {
        void run() throws Exception;
    }

    private static void check(String name, Body body) {
        try {
            body.run();
            System.out.println("ok - " + name);
        } catch (Throwable problem) {
            failures++;
            StackTraceElement where = Arrays.stream(problem.getStackTrace())
                    .filter(frame -> frame.getClassName().startsWith("Client")
                            && !frame.getMethodName().matches("equal|that|failsWith"))
                    .findFirst().orElse(null);
            System.out.println("not ok - " + name + ": " + problem + " (" + where + ")");
        }
    }

    private static void that(boolean condition, String otherwise) {
        if (!condition) {
            throw new AssertionError(otherwise);
        }
    }

    private static void equal(Object actual, Object expected) {
        that(java.util.Objects.deepEquals(actual, expected),
                "got " + show(actual) + ", expected " + show(expected));
    }

    private static String show(Object value) {
        return value instanceof byte[] ? Arrays.toString((byte[]) value) : String.valueOf(value);
    }

    private static void failsWith(int code, Body body) throws Exception {
        try {
            body.run();
        } catch (CompletionException | ExecutionException wrapped) {
            equal(((FDBException) wrapped.getCause()).getCode(), code);
            return;
        } catch (FDBException error) {
            equal(error.getCode(), code);
            return;
        }
        throw new AssertionError("no error, expected " + code);
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static byte[] number(int row) {
        return ByteBuffer.allocate(4).putInt(row).array();
    }

    private static byte[] little(long value) {
        return ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN).putLong(value).array();
    }

    private static byte[] join(byte[]... parts) {
        int size = Arrays.stream(parts).mapToInt(part -> part.length).sum();
        ByteBuffer out = ByteBuffer.allocate(size);
        Arrays.stream(parts).forEach(out::put);
        return out.array();
    }

    private static byte[] row(int i) {
        return join(bytes("row/"), number(i));
    }

    private static void set(String key, String value) {
        db.run(tr -> {
            tr.set(bytes(key), bytes(value));
            return null;
        });
    }

    private static byte[] get(String key) {
        return db.read(tr -> tr.get(bytes(key)).join());
    }

    private static List<KeyValue> startsWith(String prefix) {
        return db.read(tr -> tr.getRange(Range.startsWith(bytes(prefix))).asList().join());
    }

    private static void open(int apiVersion, String path) {
        FDB fdb = FDB.selectAPIVersion(apiVersion);
        db = path.equals("-") ? fdb.open() : fdb.open(path);
        db.options().setTransactionTimeout(60000);
        equal(get("never written"), null);
    }

    private static void writes() {
        set("hello", "world");
        equal(get("hello"), bytes("world"));
        set("", "the empty key");
        equal(get(""), bytes("the empty key"));
        set("empty value", "");
        equal(get("empty value"), new byte[0]);
    }

    private static void largest() {
        byte[] key = new byte[10000];
        byte[] value = new byte[100000];
        Arrays.fill(key, (byte) 'k');
        Arrays.fill(value, (byte) 'v');
        db.run(tr -> {
            tr.set(key, value);
            return null;
        });
        equal(db.read(tr -> tr.get(key).join()), value);
        db.run(tr -> {
            tr.clear(key);
            return null;
        });
        equal(db.read(tr -> tr.get(key).join()), null);
    }

    private static void readsOwnWrites() {
        try (Transaction tr = db.createTransaction()) {
            tr.set(bytes("own"), bytes("1"));
            equal(tr.get(bytes("own")).join(), bytes("1"));
            tr.mutate(MutationType.ADD, bytes("own counter"), little(5));
            equal(tr.get(bytes("own counter")).join(), little(5));
            tr.clear(bytes("own"));
            equal(tr.get(bytes("own")).join(), null);
        }
        equal(get("own counter"), null);
    }

    private static void fill() {
        db.run(tr -> {
            for (int i = 0; i < ROWS; i++) {
                tr.set(row(i), number(i * i % 1000003));
            }
            return null;
        });
    }

    private static void ranges() {
        fill();
        Range all = Range.startsWith(bytes("row/"));
        for (StreamingMode mode : StreamingMode.values()) {
            if (mode == StreamingMode.EXACT) {
                continue; // needs a limit
            }
            int count = db.read(tr -> {
                int i = 0;
                for (KeyValue pair : tr.getRange(all, 0, false, mode)) {
                    equal(pair.getKey(), row(i));
                    equal(pair.getValue(), number(i * i % 1000003));
                    i++;
                }
                return i;
            });
            equal(count, ROWS);
        }
        List<KeyValue> last = db.read(tr -> tr.getRange(all, 7, true).asList().join());
        equal(last.size(), 7);
        equal(last.get(0).getKey(), row(ROWS - 1));
        equal(last.get(6).getKey(), row(ROWS - 7));
        List<KeyValue> exact =
                db.read(tr -> tr.getRange(all, 5, false, StreamingMode.EXACT).asList().join());
        equal(exact.size(), 5);
    }

    private static void selectors() {
        db.read(tr -> {
            byte[] key = row(500);
            equal(tr.getKey(KeySelector.firstGreaterOrEqual(key)).join(), key);
            equal(tr.getKey(KeySelector.firstGreaterThan(key)).join(), row(501));
            equal(tr.getKey(KeySelector.lastLessThan(key)).join(), row(499));
            equal(tr.getKey(KeySelector.lastLessOrEqual(key)).join(), key);
            equal(tr.getKey(KeySelector.firstGreaterOrEqual(key).add(100)).join(), row(600));
            return null;
        });
    }

    private static void clears() {
        db.run(tr -> {
            tr.clear(row(10));
            tr.clear(row(20), row(30));
            return null;
        });
        equal(startsWith("row/").size(), ROWS - 11);
        fill();
        equal(startsWith("row/").size(), ROWS);
    }

    private static void atomics() {
        db.run(tr -> {
            tr.mutate(MutationType.ADD, bytes("atomic/add"), little(40));
            tr.mutate(MutationType.ADD, bytes("atomic/add"), little(2));
            tr.set(bytes("atomic/bits"), new byte[] {0x0f});
            tr.mutate(MutationType.BIT_OR, bytes("atomic/bits"), new byte[] {(byte) 0xf0});
            tr.mutate(MutationType.BIT_AND, bytes("atomic/bits"), new byte[] {0x3c});
            tr.mutate(MutationType.BIT_XOR, bytes("atomic/bits"), new byte[] {0x01});
            tr.mutate(MutationType.MAX, bytes("atomic/max"), little(9));
            tr.mutate(MutationType.MAX, bytes("atomic/max"), little(3));
            tr.mutate(MutationType.BYTE_MIN, bytes("atomic/min"), bytes("pear"));
            tr.mutate(MutationType.BYTE_MIN, bytes("atomic/min"), bytes("apple"));
            tr.set(bytes("atomic/cleared"), bytes("x"));
            tr.mutate(MutationType.COMPARE_AND_CLEAR, bytes("atomic/cleared"), bytes("x"));
            tr.mutate(MutationType.APPEND_IF_FITS, bytes("atomic/append"), bytes("one"));
            tr.mutate(MutationType.APPEND_IF_FITS, bytes("atomic/append"), bytes("two"));
            return null;
        });
        equal(get("atomic/add"), little(42));
        equal(get("atomic/bits"), new byte[] {0x3d});
        equal(get("atomic/max"), little(9));
        equal(get("atomic/min"), bytes("apple"));
        equal(get("atomic/cleared"), null);
        equal(get("atomic/append"), bytes("onetwo"));
    }

    private static void versionstamps() {
        byte[] stamp;
        try (Transaction tr = db.createTransaction()) {
            Tuple key = Tuple.from("stamp", Versionstamp.incomplete(7));
            byte[] pattern = key.packWithVersionstamp();
            tr.mutate(MutationType.SET_VERSIONSTAMPED_KEY, pattern, bytes("key"));
            tr.mutate(MutationType.SET_VERSIONSTAMPED_VALUE, bytes("stamped value"), new byte[14]);
            CompletableFuture<byte[]> future = tr.getVersionstamp();
            tr.commit().join();
            stamp = future.join();
            equal(ByteBuffer.wrap(stamp).getLong(), tr.getCommittedVersion());
        }
        Range stamps = Tuple.from("stamp").range();
        List<KeyValue> found = db.read(tr -> tr.getRange(stamps).asList().join());
        equal(found.size(), 1);
        Versionstamp complete = Tuple.fromBytes(found.get(0).getKey()).getVersionstamp(1);
        equal(complete, Versionstamp.complete(stamp, 7));
        equal(get("stamped value"), stamp);
    }

    private static void conflict() throws Exception {
        set("conflict", "0");
        Transaction second = db.createTransaction();
        try (Transaction first = db.createTransaction()) {
            equal(first.get(bytes("conflict")).join(), bytes("0"));
            equal(second.get(bytes("conflict")).join(), bytes("0"));
            first.set(bytes("conflict"), bytes("1"));
            second.set(bytes("conflict"), bytes("2"));
            first.commit().join();
        }
        Transaction refused = second;
        failsWith(1020, () -> refused.commit().join());
        second = second.onError(new FDBException("not committed", 1020)).join();
        equal(second.get(bytes("conflict")).join(), bytes("1"));
        second.set(bytes("conflict"), bytes("2"));
        second.commit().join();
        second.close();
        equal(get("conflict"), bytes("2"));
    }

    private static void snapshotRead() throws Exception {
        try (Transaction reader = db.createTransaction()) {
            equal(reader.snapshot().get(bytes("conflict")).join(), bytes("2"));
            reader.set(bytes("other"), bytes("1"));
            set("conflict", "3");
            reader.commit().join();
        }
        try (Transaction reader = db.createTransaction()) {
            equal(reader.snapshot().get(bytes("conflict")).join(), bytes("3"));
            reader.addReadConflictKey(bytes("conflict"));
            reader.set(bytes("other"), bytes("2"));
            set("conflict", "4");
            failsWith(1020, () -> reader.commit().join());
        }
    }

    private static CompletableFuture<Void> incrementAsync() {
        return db.runAsync(tr -> tr.get(bytes("counter")).thenAccept(value -> {
            long count = value == null
                    ? 0 : ByteBuffer.wrap(value).order(ByteOrder.LITTLE_ENDIAN).getLong();
            tr.set(bytes("counter"), little(count + 1));
        }));
    }

    private static void counter() {
        List<CompletableFuture<Void>> tasks = new ArrayList<>();
        for (int i = 0; i < TASKS; i++) {
            CompletableFuture<Void> task = CompletableFuture.completedFuture(null);
            for (int j = 0; j < INCREMENTS_PER_TASK; j++) {
                task = task.thenCompose(ignored -> incrementAsync());
            }
            tasks.add(task);
        }
        CompletableFuture.allOf(tasks.toArray(new CompletableFuture<?>[0])).join();
        equal(get("counter"), little(TASKS * INCREMENTS_PER_TASK));
    }

    private static void watch() throws Exception {
        set("watched", "1");
        CompletableFuture<Void> fired = db.run(tr -> tr.watch(bytes("watched")));
        set("unwatched", "1");
        Thread.sleep(50);
        equal(fired.isDone(), false);
        set("watched", "2");
        fired.get(WAIT_SECONDS_MAX, TimeUnit.SECONDS);
    }

    private static void limits() throws Exception {
        try (Transaction tr = db.createTransaction()) {
            tr.set(new byte[10001], new byte[0]);
            failsWith(2102, () -> tr.commit().join());
        }
        try (Transaction tr = db.createTransaction()) {
            tr.set(bytes("large"), new byte[100001]);
            failsWith(2103, () -> tr.commit().join());
        }
        try (Transaction tr = db.createTransaction()) {
            for (int i = 0; i < 101; i++) {
                tr.set(join(bytes("bulk/"), number(i)), new byte[100000]);
            }
            failsWith(2101, () -> tr.commit().join());
        }
        equal(startsWith("bulk/").size(), 0);
    }

    private static void used() throws Exception {
        try (Transaction tr = db.createTransaction()) {
            tr.set(bytes("used"), bytes("1"));
            tr.commit().join();
            failsWith(2017, () -> tr.get(bytes("used")).join());
        }
        equal(get("used"), bytes("1"));
    }

    private static void cancelledAndTimedOut() throws Exception {
        try (Transaction tr = db.createTransaction()) {
            tr.cancel();
            failsWith(1025, () -> tr.get(bytes("hello")).join());
        }
        try (Transaction tr = db.createTransaction()) {
            tr.options().setTimeout(20);
            Thread.sleep(100);
            failsWith(1031, () -> tr.get(bytes("hello")).join());
        }
    }

    private static void oldVersion() throws Exception {
        try (Transaction tr = db.createTransaction()) {
            tr.setReadVersion(1);
            failsWith(1007, () -> tr.get(bytes("hello")).join());
        }
    }

    private static void futureVersion() throws Exception {
        long version = db.read(tr -> tr.getReadVersion().join());
        try (Transaction tr = db.createTransaction()) {
            tr.setReadVersion(version + 1000L * 1000 * 1000);
            failsWith(1009, () -> tr.get(bytes("hello")).join());
        }
    }

    private static void illegal() throws Exception {
        try (Transaction tr = db.createTransaction()) {
            failsWith(2005, () -> tr.addReadConflictRange(bytes("b"), bytes("a")));
        }
        try (Transaction tr = db.createTransaction()) {
            tr.set(new byte[] {(byte) 0xff, '/'}, new byte[0]);
            failsWith(2004, () -> tr.commit().join());
        }
    }

    private static void sizes() {
        try (Transaction tr = db.createTransaction()) {
            long empty = tr.getApproximateSize().join();
            tr.set(bytes("size"), new byte[1000]);
            that(tr.getApproximateSize().join() >= empty + 1000, "approximate size");
            Range all = new Range(bytes("row/"), bytes("row0"));
            that(tr.getEstimatedRangeSizeBytes(all).join() >= 0, "estimated size");
            that(tr.getRangeSplitPoints(all, 10000).join() != null, "split points");
            String[] addresses = LocalityUtil.getAddressesForKey(tr, bytes("hello")).join();
            that(addresses.length >= 1, "addresses");
        }
        that(db.getMainThreadBusyness() >= 0, "busyness");
    }

    private static void layers() {
        Subspace space = new Subspace(Tuple.from("tuples"));
        db.run(tr -> {
            for (long value : new long[] {1L << 40, 1, 0, -1, -(1L << 40)}) {
                tr.set(space.pack(value), new byte[0]);
            }
            return null;
        });
        List<Long> unpacked = db.read(tr -> tr.getRange(space.range()).asList().join()).stream()
                .map(pair -> space.unpack(pair.getKey()).getLong(0)).collect(Collectors.toList());
        equal(unpacked, Arrays.asList(-(1L << 40), -1L, 0L, 1L, 1L << 40));

        DirectoryLayer layer = DirectoryLayer.getDefault();
        DirectorySubspace users = layer.createOrOpen(db, Arrays.asList("app", "users")).join();
        db.run(tr -> {
            tr.set(users.pack(1), bytes("Ada"));
            return null;
        });
        DirectorySubspace moved = users.moveTo(db, Arrays.asList("app", "people")).join();
        equal(db.read(tr -> tr.get(moved.pack(1)).join()), bytes("Ada"));
        equal(layer.list(db, Arrays.asList("app")).join(), Arrays.asList("people"));
        moved.remove(db).join();
        equal(db.read(tr -> tr.get(moved.pack(1)).join()), null);
    }

    private static void leaves() {
        db.run(tr -> {
            for (int i = 0; i < 100; i++) {
                tr.set(join(bytes("again/"), number(i)), number(i + 1));
            }
            return null;
        });
        equal(startsWith("again/").size(), 100);
    }

    private static void finds() {
        List<KeyValue> found = startsWith("again/");
        equal(found.size(), 100);
        for (int i = 0; i < 100; i++) {
            equal(found.get(i).getKey(), join(bytes("again/"), number(i)));
            equal(found.get(i).getValue(), number(i + 1));
        }
        equal(startsWith("row/").size(), ROWS);
        equal(get("counter"), little(TASKS * INCREMENTS_PER_TASK));
    }

    private static void versionsGoOn() {
        long version = db.read(tr -> tr.getReadVersion().join());
        that(version > ByteBuffer.wrap(get("stamped value")).getLong(), "version " + version);
    }

    private static void everything() {
        check("writes and reads back", Client::writes);
        check("writes the largest key and the largest value", Client::largest);
        check("reads its own writes", Client::readsOwnWrites);
        check("reads ranges in every streaming mode, backwards, with a limit", Client::ranges);
        check("resolves key selectors", Client::selectors);
        check("clears a key and a range", Client::clears);
        check("applies atomic operations", Client::atomics);
        check("versionstamps a key and a value", Client::versionstamps);
        check("of two conflicting transactions the second is refused (1020), then retries",
                Client::conflict);
        check("a snapshot read does not conflict, an added conflict key does",
                Client::snapshotRead);
        check("a counter of " + TASKS + " asynchronous tasks loses no increment", Client::counter);
        check("a watch fires when the value changes, not before", Client::watch);
        check("key, value and transaction too large are refused (2102, 2103, 2101)",
                Client::limits);
        check("a transaction cannot be used after its commit (2017)", Client::used);
        check("cancelled (1025) and timed out (1031) transactions say so",
                Client::cancelledAndTimedOut);
        check("a read version in the future is refused (1009)", Client::futureVersion);
        check("an inverted conflict range (2005) and system keys (2004) are refused",
                Client::illegal);
        check("sizes, split points and addresses answer", Client::sizes);
        check("the tuple and directory layers work", Client::layers);
        check("leaves data for a second process", Client::leaves);
    }

    public static void main(String[] arguments) {
        check("opens", () -> open(Integer.parseInt(arguments[0]), arguments[1]));
        if (db == null) {
            System.exit(1);
        }
        if (arguments.length > 2 && arguments[2].equals("--again")) {
            check("finds the data of the first process", Client::finds);
            check("a read version too old is refused (1007)", Client::oldVersion);
            check("versions go on where the first process stopped", Client::versionsGoOn);
        } else {
            everything();
        }
        db.close();
        System.out.println("finished");
        System.exit(failures > 0 ? 1 : 0);
    }
}
