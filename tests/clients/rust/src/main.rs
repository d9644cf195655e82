// SPDX-License-Identifier: Apache-2.0

//! The Rust crate on an embedded database.
//!
//!     client PATH           everything, on a fresh database (PATH `-`: the default one)
//!     client PATH --again   what the first run left, read by a second process
//!
//! The crate is the published one, with the C header it ships; only the shared library it links is
//! Keel's. One line a check, then `finished`, which tells a program that ran to its end from one
//! that was cut short.

use foundationdb::directory::{Directory, DirectoryLayer};
use foundationdb::options::{
    ConflictRangeType, DatabaseOption, MutationType, StreamingMode, TransactionOption,
};
use foundationdb::tuple::{pack, unpack, Subspace};
use foundationdb::{Database, FdbBindingError, FdbError, KeySelector, RangeOption, Transaction};
use futures::executor::block_on;
use futures::StreamExt;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc};
use std::time::Duration;

const ROWS: u32 = 1000;
const THREADS: i64 = 8;
const INCREMENTS_PER_THREAD: i64 = 20;
const WAIT_SECONDS_MAX: u64 = 200;

static FAILED: AtomicBool = AtomicBool::new(false);

/// Runs one check; a panic inside it is that check's failure.
fn check(name: &str, body: impl FnOnce()) {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(()) => println!("ok - {name}"),
        Err(problem) => {
            FAILED.store(true, Ordering::SeqCst);
            let text = problem
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| problem.downcast_ref::<&str>().map(|s| s.to_string()))
                .unwrap_or_default();
            println!("not ok - {name}: {}", text.replace('\n', " "));
        }
    }
}

fn fails_with<T>(code: i32, result: Result<T, FdbError>) {
    match result {
        Ok(_) => panic!("no error, expected {code}"),
        Err(error) => assert_eq!(error.code(), code, "{error}"),
    }
}

fn begin(db: &Database) -> Transaction {
    db.create_trx().unwrap()
}

fn commit(tr: Transaction) -> Result<i64, FdbError> {
    block_on(tr.commit())
        .map_err(FdbError::from)
        .and_then(|done| done.committed_version())
}

fn set(db: &Database, key: &[u8], value: &[u8]) {
    let tr = begin(db);
    tr.set(key, value);
    commit(tr).unwrap();
}

fn get_in(tr: &Transaction, key: &[u8]) -> Result<Option<Vec<u8>>, FdbError> {
    block_on(tr.get(key, false)).map(|value| value.map(|slice| slice.to_vec()))
}

fn get(db: &Database, key: &[u8]) -> Option<Vec<u8>> {
    get_in(&begin(db), key).unwrap()
}

fn row(i: u32) -> Vec<u8> {
    [b"row/".as_slice(), &i.to_be_bytes()].concat()
}

fn range(begin: &[u8], end: &[u8]) -> RangeOption<'static> {
    RangeOption::from((begin.to_vec(), end.to_vec()))
}

/// The whole range, batch by batch, as the crate's own stream fetches it.
fn read_all(db: &Database, option: RangeOption<'_>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let tr = begin(db);
    let mut out = Vec::new();
    block_on(async {
        let mut stream = tr.get_ranges_keyvalues(option, false);
        while let Some(pair) = stream.next().await {
            let pair = pair.unwrap();
            out.push((pair.key().to_vec(), pair.value().to_vec()));
        }
    });
    out
}

fn open(path: &str) -> Database {
    let db = match path {
        "-" => Database::default().unwrap(),
        _ => Database::from_path(path).unwrap(),
    };
    db.set_option(DatabaseOption::TransactionTimeout(60000))
        .unwrap();
    db
}

fn writes(db: &Database) {
    set(db, b"hello", b"world");
    assert_eq!(get(db, b"hello"), Some(b"world".to_vec()));
    set(db, b"", b"the empty key");
    assert_eq!(get(db, b""), Some(b"the empty key".to_vec()));
    set(db, b"empty value", b"");
    assert_eq!(get(db, b"empty value"), Some(vec![]));
    let (key, value) = (vec![b'k'; 10_000], vec![b'v'; 100_000]);
    set(db, &key, &value);
    assert!(get(db, &key) == Some(value));
    let tr = begin(db);
    tr.clear(&key);
    commit(tr).unwrap();
    assert_eq!(get(db, &key), None);
}

fn reads_own_writes(db: &Database) {
    let tr = begin(db);
    tr.set(b"own", b"1");
    assert_eq!(get_in(&tr, b"own").unwrap(), Some(b"1".to_vec()));
    tr.atomic_op(b"own counter", &5i64.to_le_bytes(), MutationType::Add);
    assert_eq!(
        get_in(&tr, b"own counter").unwrap(),
        Some(5i64.to_le_bytes().to_vec())
    );
    tr.clear(b"own");
    assert_eq!(get_in(&tr, b"own").unwrap(), None);
    assert_eq!(get(db, b"own counter"), None);
}

fn fill(db: &Database) {
    let tr = begin(db);
    for i in 0..ROWS {
        tr.set(&row(i), &(i + 7).to_le_bytes());
    }
    commit(tr).unwrap();
}

fn ranges(db: &Database) {
    fill(db);
    let expected: Vec<_> = (0..ROWS)
        .map(|i| (row(i), (i + 7).to_le_bytes().to_vec()))
        .collect();
    for mode in [
        StreamingMode::Iterator,
        StreamingMode::WantAll,
        StreamingMode::Small,
        StreamingMode::Medium,
        StreamingMode::Large,
        StreamingMode::Serial,
    ] {
        assert!(
            read_all(
                db,
                RangeOption {
                    mode,
                    ..range(b"row/", b"row0")
                }
            ) == expected
        );
    }
    let last = read_all(
        db,
        RangeOption {
            limit: Some(7),
            ..range(b"row/", b"row0")
        }
        .rev(),
    );
    let backwards: Vec<_> = expected.iter().rev().take(7).cloned().collect();
    assert_eq!(last, backwards);
}

fn selectors(db: &Database) {
    let tr = begin(db);
    let key = row(500);
    let find = |selector: KeySelector| block_on(tr.get_key(&selector, false)).unwrap().to_vec();
    assert_eq!(find(KeySelector::first_greater_or_equal(&key)), key);
    assert_eq!(find(KeySelector::first_greater_than(&key)), row(501));
    assert_eq!(find(KeySelector::last_less_than(&key)), row(499));
    assert_eq!(find(KeySelector::last_less_or_equal(&key)), key);
}

fn clears(db: &Database) {
    let tr = begin(db);
    tr.clear(&row(10));
    tr.clear_range(&row(20), &row(30));
    commit(tr).unwrap();
    assert_eq!(
        read_all(db, range(b"row/", b"row0")).len(),
        ROWS as usize - 11
    );
    fill(db);
    assert_eq!(read_all(db, range(b"row/", b"row0")).len(), ROWS as usize);
}

fn atomics(db: &Database) {
    let tr = begin(db);
    tr.atomic_op(b"atomic/add", &40i64.to_le_bytes(), MutationType::Add);
    tr.atomic_op(b"atomic/add", &2i64.to_le_bytes(), MutationType::Add);
    tr.set(b"atomic/bits", b"\x0f");
    tr.atomic_op(b"atomic/bits", b"\xf0", MutationType::BitOr);
    tr.atomic_op(b"atomic/bits", b"\x3c", MutationType::BitAnd);
    tr.atomic_op(b"atomic/bits", b"\x01", MutationType::BitXor);
    tr.atomic_op(b"atomic/min", b"pear", MutationType::ByteMin);
    tr.atomic_op(b"atomic/min", b"apple", MutationType::ByteMin);
    tr.set(b"atomic/cleared", b"x");
    tr.atomic_op(b"atomic/cleared", b"x", MutationType::CompareAndClear);
    commit(tr).unwrap();
    assert_eq!(get(db, b"atomic/add"), Some(42i64.to_le_bytes().to_vec()));
    assert_eq!(get(db, b"atomic/bits"), Some(vec![0x3d]));
    assert_eq!(get(db, b"atomic/min"), Some(b"apple".to_vec()));
    assert_eq!(get(db, b"atomic/cleared"), None);
}

fn versionstamps(db: &Database) {
    let tr = begin(db);
    let key = [b"stamp/".as_slice(), &[0; 10], &6u32.to_le_bytes()].concat();
    tr.atomic_op(&key, b"key", MutationType::SetVersionstampedKey);
    tr.atomic_op(
        b"stamped value",
        &[0; 14],
        MutationType::SetVersionstampedValue,
    );
    let future = tr.get_versionstamp();
    let version = commit(tr).unwrap();
    let stamp = block_on(future).unwrap().to_vec();
    assert_eq!(stamp[..8], version.to_be_bytes());
    let found = read_all(db, range(b"stamp/", b"stamp0"));
    assert_eq!(
        found,
        [([b"stamp/".as_slice(), &stamp].concat(), b"key".to_vec())]
    );
    assert_eq!(get(db, b"stamped value"), Some(stamp));
}

fn conflict(db: &Database) {
    set(db, b"conflict", b"0");
    let (first, second) = (begin(db), begin(db));
    assert_eq!(get_in(&first, b"conflict").unwrap(), Some(b"0".to_vec()));
    assert_eq!(get_in(&second, b"conflict").unwrap(), Some(b"0".to_vec()));
    first.set(b"conflict", b"1");
    second.set(b"conflict", b"2");
    commit(first).unwrap();
    let refused = block_on(second.commit())
        .err()
        .expect("the second commit must fail");
    assert_eq!(refused.code(), 1020);
    let second = block_on(refused.on_error()).unwrap();
    assert_eq!(get_in(&second, b"conflict").unwrap(), Some(b"1".to_vec()));
    second.set(b"conflict", b"2");
    commit(second).unwrap();
    assert_eq!(get(db, b"conflict"), Some(b"2".to_vec()));
}

fn conflicting_keys(db: &Database) {
    let tr = begin(db);
    tr.set_option(TransactionOption::ReportConflictingKeys)
        .unwrap();
    get_in(&tr, b"conflict").unwrap();
    tr.set(b"other", b"1");
    set(db, b"conflict", b"2");
    let refused = block_on(tr.commit()).err().expect("the commit must fail");
    assert_eq!(refused.code(), 1020);
    let keys = block_on(refused.conflicting_keys()).unwrap();
    assert!(
        keys.iter()
            .any(|range| range.begin() <= b"conflict" && range.end() > b"conflict"),
        "{keys:?}"
    );
}

fn snapshot_read(db: &Database) {
    let tr = begin(db);
    assert_eq!(
        block_on(tr.get(b"conflict", true)).unwrap().as_deref(),
        Some(b"2".as_slice())
    );
    tr.set(b"other", b"1");
    set(db, b"conflict", b"3");
    commit(tr).unwrap();
    let tr = begin(db);
    assert_eq!(
        block_on(tr.get(b"conflict", true)).unwrap().as_deref(),
        Some(b"3".as_slice())
    );
    tr.add_conflict_range(b"conflict", b"conflict\0", ConflictRangeType::Read)
        .unwrap();
    tr.set(b"other", b"2");
    set(db, b"conflict", b"4");
    fails_with(1020, commit(tr));
}

async fn increment(db: &Database) -> Result<(), FdbBindingError> {
    db.run(|tr, _| async move {
        let value = tr.get(b"counter", false).await?;
        let count = value.map_or(0, |v| i64::from_le_bytes(v.as_ref().try_into().unwrap()));
        tr.set(b"counter", &(count + 1).to_le_bytes());
        Ok(())
    })
    .await
}

fn counter(db: &Arc<Database>) {
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let db = db.clone();
            std::thread::spawn(move || {
                for _ in 0..INCREMENTS_PER_THREAD {
                    block_on(increment(&db)).unwrap();
                }
            })
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().expect("a thread failed"));
    let total = THREADS * INCREMENTS_PER_THREAD;
    assert_eq!(get(db, b"counter"), Some(total.to_le_bytes().to_vec()));
}

fn watch(db: &Database) {
    set(db, b"watched", b"1");
    let tr = begin(db);
    let future = tr.watch(b"watched");
    commit(tr).unwrap();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(block_on(future)));
    set(db, b"unwatched", b"1");
    assert!(
        receiver.recv_timeout(Duration::from_millis(50)).is_err(),
        "fired too early"
    );
    set(db, b"watched", b"2");
    let fired = receiver.recv_timeout(Duration::from_secs(WAIT_SECONDS_MAX));
    fired.expect("the watch did not fire").unwrap();
}

fn limits(db: &Database) {
    let tr = begin(db);
    tr.set(&[b'x'; 10_001], b"");
    fails_with(2102, commit(tr));
    let tr = begin(db);
    tr.set(b"large", &vec![0; 100_001]);
    fails_with(2103, commit(tr));
    let tr = begin(db);
    for i in 0..101u32 {
        tr.set(
            &[b"bulk/".as_slice(), &i.to_be_bytes()].concat(),
            &vec![0; 100_000],
        );
    }
    fails_with(2101, commit(tr));
    assert!(read_all(db, range(b"bulk/", b"bulk0")).is_empty());
}

fn timed_out(db: &Database) {
    let tr = begin(db);
    tr.set_option(TransactionOption::Timeout(20)).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    fails_with(1031, get_in(&tr, b"hello"));
}

fn future_version(db: &Database) {
    let version = block_on(begin(db).get_read_version()).unwrap();
    let tr = begin(db);
    tr.set_read_version(version + 1_000_000_000);
    fails_with(1009, get_in(&tr, b"hello"));
}

fn old_version(db: &Database) {
    let tr = begin(db);
    tr.set_read_version(1);
    fails_with(1007, get_in(&tr, b"hello"));
}

fn illegal(db: &Database) {
    let tr = begin(db);
    fails_with(
        2005,
        tr.add_conflict_range(b"b", b"a", ConflictRangeType::Read),
    );
    tr.clear_range(b"b", b"a");
    fails_with(2005, commit(tr));
    let tr = begin(db);
    tr.set(b"\xff/keel", b"");
    fails_with(2004, commit(tr));
}

fn sizes(db: &Database) {
    let tr = begin(db);
    let empty = block_on(tr.get_approximate_size()).unwrap();
    tr.set(b"size", &[0; 1000]);
    assert!(block_on(tr.get_approximate_size()).unwrap() >= empty + 1000);
    assert!(block_on(tr.get_estimated_range_size_bytes(b"row/", b"row0")).unwrap() >= 0);
    let points = block_on(tr.get_range_split_points(b"row/", b"row0", 10_000)).unwrap();
    assert_eq!(points[0].key(), b"row/");
    assert_eq!(points[points.len() - 1].key(), b"row0");
    assert!(!block_on(tr.get_addresses_for_key(b"hello"))
        .unwrap()
        .is_empty());
    block_on(db.get_client_status()).unwrap();
}

fn metadata_version(db: &Database) {
    let tr = begin(db);
    tr.update_metadata_version();
    let version = commit(tr).unwrap();
    assert_eq!(
        block_on(begin(db).get_metadata_version(false)).unwrap(),
        Some(version)
    );
}

fn layers(db: &Database) {
    let space = Subspace::from("tuples");
    let tr = begin(db);
    for value in [1i64 << 40, 1, 0, -1, -(1 << 40)] {
        tr.set(&space.pack(&value), b"");
    }
    commit(tr).unwrap();
    let (first, last) = space.range();
    let found: Vec<i64> = read_all(db, range(&first, &last))
        .iter()
        .map(|(key, _)| space.unpack(key).unwrap())
        .collect();
    assert_eq!(found, [-(1i64 << 40), -1, 0, 1, 1 << 40]);
    assert_eq!(
        unpack::<(String, i64)>(&pack(&("a", 1i64))).unwrap(),
        ("a".to_string(), 1)
    );

    let layer = DirectoryLayer::default();
    let path = |name: &str| vec!["app".to_string(), name.to_string()];
    let tr = begin(db);
    let users = block_on(layer.create_or_open(&tr, &path("users"), None, None)).unwrap();
    tr.set(&users.pack(&1i64).unwrap(), b"Ada");
    commit(tr).unwrap();
    let tr = begin(db);
    let moved = block_on(layer.move_to(&tr, &path("users"), &path("people"))).unwrap();
    commit(tr).unwrap();
    assert_eq!(get(db, &moved.pack(&1i64).unwrap()), Some(b"Ada".to_vec()));
    let names = block_on(layer.list(&begin(db), &["app".to_string()])).unwrap();
    assert_eq!(names, ["people"]);
}

fn leaves(db: &Database) {
    let tr = begin(db);
    for i in 0..100u32 {
        tr.set(
            &[b"again/".as_slice(), &i.to_be_bytes()].concat(),
            &(i + 1).to_be_bytes(),
        );
    }
    commit(tr).unwrap();
    assert_eq!(read_all(db, range(b"again/", b"again0")).len(), 100);
}

fn finds(db: &Database) {
    let found = read_all(db, range(b"again/", b"again0"));
    assert_eq!(found.len(), 100);
    for (i, (key, value)) in (0u32..).zip(&found) {
        assert_eq!(*key, [b"again/".as_slice(), &i.to_be_bytes()].concat());
        assert_eq!(*value, (i + 1).to_be_bytes());
    }
    assert_eq!(read_all(db, range(b"row/", b"row0")).len(), ROWS as usize);
    let total = THREADS * INCREMENTS_PER_THREAD;
    assert_eq!(get(db, b"counter"), Some(total.to_le_bytes().to_vec()));
}

fn versions_go_on(db: &Database) {
    let stamp = get(db, b"stamped value").unwrap();
    let before = i64::from_be_bytes(stamp[..8].try_into().unwrap());
    assert!(block_on(begin(db).get_read_version()).unwrap() > before);
}

fn everything(db: &Arc<Database>) {
    check(
        "writes and reads back, up to the largest key and value",
        || writes(db),
    );
    check("reads its own writes", || reads_own_writes(db));
    check(
        "reads ranges in every streaming mode, backwards, with a limit",
        || ranges(db),
    );
    check("resolves key selectors", || selectors(db));
    check("clears a key and a range", || clears(db));
    check("applies atomic operations", || atomics(db));
    check("versionstamps a key and a value", || versionstamps(db));
    check(
        "of two conflicting transactions the second is refused (1020), then retries",
        || conflict(db),
    );
    check("a refused commit names the conflicting keys", || {
        conflicting_keys(db)
    });
    check(
        "a snapshot read does not conflict, an added conflict range does",
        || snapshot_read(db),
    );
    check("a counter of many threads loses no increment", || {
        counter(db)
    });
    check("a watch fires when the value changes, not before", || {
        watch(db)
    });
    check(
        "key, value and transaction too large are refused (2102, 2103, 2101)",
        || limits(db),
    );
    check("a transaction past its timeout says so (1031)", || {
        timed_out(db)
    });
    check("a read version in the future is refused (1009)", || {
        future_version(db)
    });
    check(
        "an inverted range (2005) and system keys (2004) are refused",
        || illegal(db),
    );
    check(
        "sizes, split points, addresses and client status answer",
        || sizes(db),
    );
    check("the metadata version is the commit's", || {
        metadata_version(db)
    });
    check("the tuple and directory layers work", || layers(db));
    check("leaves data for a second process", || leaves(db));
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    std::panic::set_hook(Box::new(|_| {})); // the check prints its own panic
    let network = unsafe { foundationdb::boot() };
    let mut opened = None;
    check("opens", || {
        let db = open(&arguments[1]);
        assert_eq!(get(&db, b"never written"), None);
        opened = Some(Arc::new(db));
    });
    if let Some(db) = opened {
        if arguments.get(2).map(String::as_str) == Some("--again") {
            check("finds the data of the first process", || finds(&db));
            check("a read version too old is refused (1007)", || {
                old_version(&db)
            });
            check("versions go on where the first process stopped", || {
                versions_go_on(&db)
            });
        } else {
            everything(&db);
        }
    }
    drop(network);
    println!("finished");
    std::process::exit(if FAILED.load(Ordering::SeqCst) { 1 } else { 0 });
}
