// SPDX-License-Identifier: Apache-2.0

// The official Go binding on an embedded database.
//
//	client PATH           everything, on a fresh database (PATH `-`: the default one)
//	client PATH --again   what the first run left, read by a second process
//
// The binding is the published module, unmodified; only the shared library it links is Keel's. One
// line a check, then `finished`, which tells a program that ran to its end from one that was cut
// short.
package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/apple/foundationdb/bindings/go/src/fdb"
	"github.com/apple/foundationdb/bindings/go/src/fdb/directory"
	"github.com/apple/foundationdb/bindings/go/src/fdb/subspace"
	"github.com/apple/foundationdb/bindings/go/src/fdb/tuple"
)

const (
	rows                 = 1000
	goroutines           = 16
	incrementsPerRoutine = 15
	watchSecondsMax      = 200
	transactionValues    = 101
)

var (
	db       fdb.Database
	failures int
)

// check runs one check; a panic inside it is that check's failure.
func check(name string, body func()) {
	defer func() {
		if problem := recover(); problem != nil {
			failures++
			fmt.Printf("not ok - %s: %v\n", name, problem)
			return
		}
		fmt.Printf("ok - %s\n", name)
	}()
	body()
}

func equal(actual, expected interface{}) {
	a, b := fmt.Sprintf("%#v", actual), fmt.Sprintf("%#v", expected)
	if a != b {
		panic(fmt.Sprintf("got %.200s, expected %.200s", a, b))
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func failsWith(code int, err error) {
	var failure fdb.Error
	if !errors.As(err, &failure) {
		panic(fmt.Sprintf("got %v, expected error %d", err, code))
	}
	if failure.Code != code {
		panic(fmt.Sprintf("error %d, expected %d", failure.Code, code))
	}
}

func number(row int) []byte {
	out := make([]byte, 4)
	binary.BigEndian.PutUint32(out, uint32(row))
	return out
}

func little(value int64) []byte {
	out := make([]byte, 8)
	binary.LittleEndian.PutUint64(out, uint64(value))
	return out
}

func rowKey(row int) fdb.Key {
	return append(fdb.Key("row/"), number(row)...)
}

func allRows() fdb.KeyRange {
	return fdb.KeyRange{Begin: fdb.Key("row/"), End: fdb.Key("row0")}
}

func begin() fdb.Transaction {
	tr, err := db.CreateTransaction()
	must(err)
	return tr
}

func set(key, value string) {
	_, err := db.Transact(func(tr fdb.Transaction) (interface{}, error) {
		tr.Set(fdb.Key(key), []byte(value))
		return nil, nil
	})
	must(err)
}

func get(key string) []byte {
	value, err := db.ReadTransact(func(tr fdb.ReadTransaction) (interface{}, error) {
		return tr.Get(fdb.Key(key)).Get()
	})
	must(err)
	return value.([]byte)
}

func getRange(r fdb.Range, options fdb.RangeOptions) []fdb.KeyValue {
	list, err := db.ReadTransact(func(tr fdb.ReadTransaction) (interface{}, error) {
		return tr.GetRange(r, options).GetSliceWithError()
	})
	must(err)
	return list.([]fdb.KeyValue)
}

func prefix(text string) fdb.KeyRange {
	r, err := fdb.PrefixRange([]byte(text))
	must(err)
	return r
}

func open(path string) {
	var err error
	fdb.MustAPIVersion(740)
	if path == "-" {
		db, err = fdb.OpenDefault()
	} else {
		db, err = fdb.OpenDatabase(path)
	}
	must(err)
	must(db.Options().SetTransactionTimeout(60000))
	equal(get("never written"), []byte(nil))
}

func writes() {
	set("hello", "world")
	equal(get("hello"), []byte("world"))
	set("", "the empty key")
	equal(get(""), []byte("the empty key"))
	set("empty value", "")
	equal(get("empty value"), []byte{})
}

func largest() {
	key, value := string(bytes.Repeat([]byte("k"), 10000)), bytes.Repeat([]byte("v"), 100000)
	set(key, string(value))
	equal(bytes.Equal(get(key), value), true)
	_, err := db.Transact(func(tr fdb.Transaction) (interface{}, error) {
		tr.Clear(fdb.Key(key))
		return nil, nil
	})
	must(err)
	equal(get(key), []byte(nil))
}

func readsOwnWrites() {
	tr := begin()
	tr.Set(fdb.Key("own"), []byte("1"))
	equal(tr.Get(fdb.Key("own")).MustGet(), []byte("1"))
	tr.Add(fdb.Key("own counter"), little(5))
	equal(tr.Get(fdb.Key("own counter")).MustGet(), little(5))
	tr.Clear(fdb.Key("own"))
	equal(tr.Get(fdb.Key("own")).MustGet(), []byte(nil))
	equal(get("own counter"), []byte(nil))
}

func fill() {
	_, err := db.Transact(func(tr fdb.Transaction) (interface{}, error) {
		for i := 0; i < rows; i++ {
			tr.Set(rowKey(i), number(i*i%1000003))
		}
		return nil, nil
	})
	must(err)
}

func ranges() {
	fill()
	modes := []fdb.StreamingMode{fdb.StreamingModeIterator, fdb.StreamingModeWantAll,
		fdb.StreamingModeSmall, fdb.StreamingModeMedium, fdb.StreamingModeLarge, fdb.StreamingModeSerial}
	for _, mode := range modes {
		list := getRange(allRows(), fdb.RangeOptions{Mode: mode})
		equal(len(list), rows)
		for i, row := range list {
			equal(row.Key, rowKey(i))
			equal(row.Value, number(i*i%1000003))
		}
	}
	list := getRange(allRows(), fdb.RangeOptions{Limit: 7, Reverse: true})
	equal(len(list), 7)
	equal(list[0].Key, rowKey(rows-1))
	equal(list[6].Key, rowKey(rows-7))
}

func iterators() {
	_, err := db.ReadTransact(func(tr fdb.ReadTransaction) (interface{}, error) {
		count := 0
		iterator := tr.GetRange(allRows(), fdb.RangeOptions{}).Iterator()
		for iterator.Advance() {
			row, err := iterator.Get()
			if err != nil {
				return nil, err
			}
			equal(row.Key, rowKey(count))
			count++
		}
		equal(count, rows)
		return nil, nil
	})
	must(err)
}

func selectors() {
	tr := begin()
	key := rowKey(500)
	equal(tr.GetKey(fdb.FirstGreaterOrEqual(key)).MustGet(), key)
	equal(tr.GetKey(fdb.FirstGreaterThan(key)).MustGet(), rowKey(501))
	equal(tr.GetKey(fdb.LastLessThan(key)).MustGet(), rowKey(499))
	equal(tr.GetKey(fdb.LastLessOrEqual(key)).MustGet(), key)
	equal(tr.GetKey(fdb.KeySelector{Key: key, OrEqual: false, Offset: 101}).MustGet(), rowKey(600))
}

func clears() {
	_, err := db.Transact(func(tr fdb.Transaction) (interface{}, error) {
		tr.Clear(rowKey(10))
		tr.ClearRange(fdb.KeyRange{Begin: rowKey(20), End: rowKey(30)})
		return nil, nil
	})
	must(err)
	equal(len(getRange(allRows(), fdb.RangeOptions{})), rows-11)
	fill()
	equal(len(getRange(allRows(), fdb.RangeOptions{})), rows)
}

func atomics() {
	_, err := db.Transact(func(tr fdb.Transaction) (interface{}, error) {
		tr.Add(fdb.Key("atomic/add"), little(40))
		tr.Add(fdb.Key("atomic/add"), little(2))
		tr.Set(fdb.Key("atomic/bits"), []byte{0x0f})
		tr.BitOr(fdb.Key("atomic/bits"), []byte{0xf0})
		tr.BitAnd(fdb.Key("atomic/bits"), []byte{0x3c})
		tr.BitXor(fdb.Key("atomic/bits"), []byte{0x01})
		tr.Max(fdb.Key("atomic/max"), little(9))
		tr.Max(fdb.Key("atomic/max"), little(3))
		tr.ByteMin(fdb.Key("atomic/min"), []byte("pear"))
		tr.ByteMin(fdb.Key("atomic/min"), []byte("apple"))
		tr.Set(fdb.Key("atomic/cleared"), []byte("x"))
		tr.CompareAndClear(fdb.Key("atomic/cleared"), []byte("x"))
		tr.AppendIfFits(fdb.Key("atomic/append"), []byte("one"))
		tr.AppendIfFits(fdb.Key("atomic/append"), []byte("two"))
		return nil, nil
	})
	must(err)
	equal(get("atomic/add"), little(42))
	equal(get("atomic/bits"), []byte{0x3d})
	equal(get("atomic/max"), little(9))
	equal(get("atomic/min"), []byte("apple"))
	equal(get("atomic/cleared"), []byte(nil))
	equal(get("atomic/append"), []byte("onetwo"))
}

func versionstamps() {
	tr := begin()
	pattern := append([]byte("stamp/"), make([]byte, 10)...)
	tr.SetVersionstampedKey(fdb.Key(append(pattern, 6, 0, 0, 0)), []byte("key"))
	tr.SetVersionstampedValue(fdb.Key("stamped value"), make([]byte, 14))
	future := tr.GetVersionstamp()
	must(tr.Commit().Get())
	stamp := future.MustGet()
	version, err := tr.GetCommittedVersion()
	must(err)
	equal(len(stamp), 10)
	equal(int64(binary.BigEndian.Uint64(stamp)), version)
	list := getRange(prefix("stamp/"), fdb.RangeOptions{})
	equal(len(list), 1)
	equal([]byte(list[0].Key), append([]byte("stamp/"), stamp...))
	equal(get("stamped value"), []byte(stamp))
}

func conflict() {
	set("conflict", "0")
	first, second := begin(), begin()
	equal(first.Get(fdb.Key("conflict")).MustGet(), []byte("0"))
	equal(second.Get(fdb.Key("conflict")).MustGet(), []byte("0"))
	first.Set(fdb.Key("conflict"), []byte("1"))
	second.Set(fdb.Key("conflict"), []byte("2"))
	must(first.Commit().Get())
	err := second.Commit().Get()
	failsWith(1020, err)
	must(second.OnError(err.(fdb.Error)).Get())
	equal(second.Get(fdb.Key("conflict")).MustGet(), []byte("1"))
	second.Set(fdb.Key("conflict"), []byte("2"))
	must(second.Commit().Get())
	equal(get("conflict"), []byte("2"))
}

func snapshotRead() {
	reader := begin()
	equal(reader.Snapshot().Get(fdb.Key("conflict")).MustGet(), []byte("2"))
	reader.Set(fdb.Key("other"), []byte("1"))
	set("conflict", "3")
	must(reader.Commit().Get())
	reader = begin()
	equal(reader.Snapshot().Get(fdb.Key("conflict")).MustGet(), []byte("3"))
	must(reader.AddReadConflictKey(fdb.Key("conflict")))
	reader.Set(fdb.Key("other"), []byte("2"))
	set("conflict", "4")
	failsWith(1020, reader.Commit().Get())
}

func counter() {
	var group sync.WaitGroup
	problems := make(chan error, goroutines)
	for i := 0; i < goroutines; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for j := 0; j < incrementsPerRoutine; j++ {
				_, err := db.Transact(func(tr fdb.Transaction) (interface{}, error) {
					value := tr.Get(fdb.Key("counter")).MustGet()
					count := int64(0)
					if value != nil {
						count = int64(binary.LittleEndian.Uint64(value))
					}
					tr.Set(fdb.Key("counter"), little(count+1))
					return nil, nil
				})
				if err != nil {
					problems <- err
					return
				}
			}
		}()
	}
	group.Wait()
	close(problems)
	must(<-problems)
	equal(get("counter"), little(goroutines*incrementsPerRoutine))
}

func watch() {
	set("watched", "1")
	tr := begin()
	future := tr.Watch(fdb.Key("watched"))
	must(tr.Commit().Get())
	set("unwatched", "1")
	time.Sleep(50 * time.Millisecond)
	equal(future.IsReady(), false)
	fired := make(chan error, 1)
	go func() { fired <- future.Get() }()
	set("watched", "2")
	select {
	case err := <-fired:
		must(err)
	case <-time.After(watchSecondsMax * time.Second):
		panic("the watch did not fire")
	}
}

func watchCancelled() {
	tr := begin()
	future := tr.Watch(fdb.Key("watched"))
	must(tr.Commit().Get())
	future.Cancel()
	failsWith(1101, future.Get())
}

func limits() {
	tr := begin()
	tr.Set(fdb.Key(bytes.Repeat([]byte("x"), 10001)), nil)
	failsWith(2102, tr.Commit().Get())
	tr = begin()
	tr.Set(fdb.Key("large"), make([]byte, 100001))
	failsWith(2103, tr.Commit().Get())
	tr = begin()
	for i := 0; i < transactionValues; i++ {
		tr.Set(append(fdb.Key("bulk/"), number(i)...), make([]byte, 100000))
	}
	failsWith(2101, tr.Commit().Get())
	equal(len(getRange(prefix("bulk/"), fdb.RangeOptions{})), 0)
}

func used() {
	tr := begin()
	tr.Set(fdb.Key("used"), []byte("1"))
	must(tr.Commit().Get())
	_, err := tr.Get(fdb.Key("used")).Get()
	failsWith(2017, err)
	tr.Reset()
	equal(tr.Get(fdb.Key("used")).MustGet(), []byte("1"))
}

func cancelledAndTimedOut() {
	tr := begin()
	tr.Cancel()
	_, err := tr.Get(fdb.Key("hello")).Get()
	failsWith(1025, err)
	tr = begin()
	must(tr.Options().SetTimeout(20))
	time.Sleep(100 * time.Millisecond)
	_, err = tr.Get(fdb.Key("hello")).Get()
	failsWith(1031, err)
}

func futureVersion() {
	version := begin().GetReadVersion().MustGet()
	tr := begin()
	tr.SetReadVersion(version + 1000*1000*1000)
	_, err := tr.Get(fdb.Key("hello")).Get()
	failsWith(1009, err)
}

func oldVersion() {
	tr := begin()
	tr.SetReadVersion(1)
	_, err := tr.Get(fdb.Key("hello")).Get()
	failsWith(1007, err)
}

func illegal() {
	tr := begin()
	inverted := fdb.KeyRange{Begin: fdb.Key("b"), End: fdb.Key("a")}
	failsWith(2005, tr.AddReadConflictRange(inverted))
	tr.ClearRange(inverted)
	failsWith(2005, tr.Commit().Get())
	tr = begin()
	tr.Set(fdb.Key("\xff/keel"), nil)
	failsWith(2004, tr.Commit().Get())
}

func sizes() {
	tr := begin()
	empty := tr.GetApproximateSize().MustGet()
	tr.Set(fdb.Key("size"), make([]byte, 1000))
	equal(tr.GetApproximateSize().MustGet() >= empty+1000, true)
	equal(tr.GetEstimatedRangeSizeBytes(allRows()).MustGet() >= 0, true)
	points := tr.GetRangeSplitPoints(allRows(), 10000).MustGet()
	equal(points[0], fdb.Key("row/"))
	equal(points[len(points)-1], fdb.Key("row0"))
	equal(len(tr.LocalityGetAddressesForKey(fdb.Key("hello")).MustGet()) >= 1, true)
	status, err := db.GetClientStatus()
	if !errors.Is(err, fdb.ErrMultiVersionClientUnavailable) { // what a single-version client says
		must(err)
		equal(status[0], byte('{'))
	}
}

func layers() {
	space := subspace.Sub("tuples")
	_, err := db.Transact(func(tr fdb.Transaction) (interface{}, error) {
		for _, value := range []int64{1 << 40, 1, 0, -1, -(1 << 40)} {
			tr.Set(space.Pack(tuple.Tuple{value}), []byte{})
		}
		return nil, nil
	})
	must(err)
	unpacked := []int64{}
	for _, row := range getRange(space, fdb.RangeOptions{}) {
		element, err := space.Unpack(row.Key)
		must(err)
		unpacked = append(unpacked, element[0].(int64))
	}
	equal(unpacked, []int64{-(1 << 40), -1, 0, 1, 1 << 40})

	users, err := directory.CreateOrOpen(db, []string{"app", "users"}, nil)
	must(err)
	set(string(users.Pack(tuple.Tuple{1})), "Ada")
	moved, err := directory.Move(db, []string{"app", "users"}, []string{"app", "people"})
	must(err)
	equal(get(string(moved.Pack(tuple.Tuple{1}))), []byte("Ada"))
	names, err := directory.List(db, []string{"app"})
	must(err)
	equal(names, []string{"people"})
	_, err = directory.Root().Remove(db, []string{"app", "people"})
	must(err)
	equal(get(string(moved.Pack(tuple.Tuple{1}))), []byte(nil))
}

func leaves() {
	_, err := db.Transact(func(tr fdb.Transaction) (interface{}, error) {
		for i := 0; i < 100; i++ {
			tr.Set(append(fdb.Key("again/"), number(i)...), number(i+1))
		}
		return nil, nil
	})
	must(err)
	equal(len(getRange(prefix("again/"), fdb.RangeOptions{})), 100)
}

func finds() {
	list := getRange(prefix("again/"), fdb.RangeOptions{})
	equal(len(list), 100)
	for i, row := range list {
		equal(row.Key, append(fdb.Key("again/"), number(i)...))
		equal(row.Value, number(i+1))
	}
	equal(len(getRange(allRows(), fdb.RangeOptions{})), rows)
	equal(get("counter"), little(goroutines*incrementsPerRoutine))
}

func versionsGoOn() {
	stamp := get("stamped value")
	version := begin().GetReadVersion().MustGet()
	equal(version > int64(binary.BigEndian.Uint64(stamp)), true)
}

func main() {
	path := os.Args[1]
	check("opens", func() { open(path) })
	if len(os.Args) > 2 && os.Args[2] == "--again" {
		check("finds the data of the first process", finds)
		check("a read version too old is refused (1007)", oldVersion)
		check("versions go on where the first process stopped", versionsGoOn)
	} else {
		check("writes and reads back", writes)
		check("writes the largest key and the largest value", largest)
		check("reads its own writes", readsOwnWrites)
		check("reads ranges in every streaming mode, backwards, with a limit", ranges)
		check("iterates over a range", iterators)
		check("resolves key selectors", selectors)
		check("clears a key and a range", clears)
		check("applies atomic operations", atomics)
		check("versionstamps a key and a value", versionstamps)
		check("of two conflicting transactions the second is refused (1020), then retries", conflict)
		check("a snapshot read does not conflict, an added conflict key does", snapshotRead)
		check(fmt.Sprintf("a counter of %d goroutines loses no increment", goroutines), counter)
		check("a watch fires when the value changes, not before", watch)
		check("a cancelled watch says so (1101)", watchCancelled)
		check("key, value and transaction too large are refused (2102, 2103, 2101)", limits)
		check("a transaction cannot be used after its commit (2017)", used)
		check("cancelled (1025) and timed out (1031) transactions say so", cancelledAndTimedOut)
		check("a read version in the future is refused (1009)", futureVersion)
		check("an inverted range (2005) and system keys (2004) are refused", illegal)
		check("sizes, split points, addresses and client status answer", sizes)
		check("the tuple and directory layers work", layers)
		check("leaves data for a second process", leaves)
	}
	fmt.Println("finished")
	if failures > 0 {
		os.Exit(1)
	}
}
