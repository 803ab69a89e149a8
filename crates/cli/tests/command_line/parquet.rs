//! `transfix convert --to parquet`: the table made from logs, journals and captures of each kind.

use std::fs;

use transfix_testkit::temp::TempDir;

use crate::command_line::run_in;

#[cfg(not(feature = "parquet"))]
#[test]
fn a_program_without_it_says_which_one_has_it() {
    let dir = TempDir::new();
    fs::write(dir.path().join("a.log"), b"8=FIX.4.4|9=5|35=0|10=163|\n").unwrap();
    let run = run_in(dir.path(), &["convert", "--to", "parquet", "a.log"], b"");
    assert_eq!((run.code, &*run.out), (2, ""), "{run:?}");
    for expected in
        ["this program was built without Parquet", "Debian package", "--features parquet"]
    {
        assert!(run.err.contains(expected), "{run:?}");
    }
}

#[cfg(feature = "parquet")]
mod table {
    use std::fs::File;
    use std::path::Path;
    use std::process::{Command, Stdio};

    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::{Field, Row};
    use transfix_codec::FrameWriter;
    use transfix_store::{FileStore, Kind, Options, Record, Store};

    use super::*;

    fn between(sender: &str, target: &str, msg_type: &str, seq: u32, fields: &str) -> Vec<u8> {
        let mut out = Vec::new();
        let mut frame = FrameWriter::new(&mut out, b"FIX.4.4", msg_type.as_bytes());
        let header = format!("34={seq}|49={sender}|56={target}|52=20261121-09:28:{seq:02}|");
        frame.raw((header + fields).replace('|', "\x01").as_bytes());
        frame.finish().unwrap();
        out
    }

    /// Converts the files and reads the table. Returns the exit code, the rows, and the output.
    fn converted(dir: &TempDir, args: &[&str]) -> (i32, Vec<Row>, String) {
        let place = dir.path().join("all.parquet");
        let output = Command::new(env!("CARGO_BIN_EXE_transfix"))
            .args(["convert", "--to", "parquet"])
            .args(args)
            .current_dir(dir.path() as &Path)
            .stdin(Stdio::null())
            .stdout(File::create(&place).unwrap())
            .output()
            .unwrap();
        let reader = SerializedFileReader::new(File::open(&place).unwrap()).unwrap();
        let rows = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        (output.status.code().unwrap(), rows, String::from_utf8(output.stderr).unwrap())
    }

    fn column<'r>(row: &'r Row, name: &str) -> &'r Field {
        row.get_column_iter().find(|(known, _)| *known == name).unwrap().1
    }

    fn text(row: &Row, name: &str) -> Option<String> {
        match column(row, name) {
            Field::Null => None,
            Field::Str(text) => Some(text.clone()),
            other => panic!("{name}: {other:?}"),
        }
    }

    fn number(row: &Row, name: &str) -> Option<i64> {
        match column(row, name) {
            Field::Null => None,
            Field::Long(number) => Some(*number),
            other => panic!("{name}: {other:?}"),
        }
    }

    fn raw(row: &Row) -> Vec<u8> {
        match column(row, "raw") {
            Field::Bytes(bytes) => bytes.data().to_vec(),
            other => panic!("{other:?}"),
        }
    }

    /// Returns the fields of a row in message order, each tag with its values.
    fn fields(row: &Row) -> Vec<(i32, Vec<String>)> {
        let Field::MapInternal(map) = column(row, "fields") else { panic!("{row:?}") };
        let one = |(key, value): &(Field, Field)| {
            let (Field::Int(tag), Field::ListInternal(values)) = (key, value) else {
                panic!("{key:?} {value:?}")
            };
            let value = |value: &Field| match value {
                Field::Str(text) => text.clone(),
                other => panic!("{other:?}"),
            };
            (*tag, values.elements().iter().map(value).collect())
        };
        map.entries().iter().map(one).collect()
    }

    /// The time 2026-11-21 09:28:25 in nanoseconds since 1970.
    const AT: i64 = 1_795_253_305_000_000_000;

    #[test]
    fn parquet_has_every_message_of_every_kind_of_log() {
        let dir = TempDir::new();
        let write = |name: &str, bytes: &[u8]| {
            fs::create_dir_all(dir.path().join("all")).unwrap();
            fs::write(dir.path().join("all").join(name), bytes).unwrap();
        };
        let [sent, received] = [("ME", "YOU"), ("YOU", "ME")];
        let sent = between(sent.0, sent.1, "D", 1, "11=C1|55=EU|54=1|38=5|");
        let received = between(received.0, received.1, "8", 2, "43=Y|37=x|11=C1|17=1|58=|");
        let line = |head: &str, message: &[u8]| [head.as_bytes(), message, b"\n"].concat();
        let time = "20261121-09:28:25.000000007 : ";
        write("FIX.4.4-ME-YOU.out.log", &line(time, &sent));
        write("FIX.4.4-ME-YOU.in.log", &line(time, &received));
        let words = |way: &str| format!("20261121-09:28:25.000000007 {way} : ");
        write("words.log", &[line(&words("in"), &received), line(&words("out"), &sent)].concat());
        let quickfix = [line(time, &received), line(time, &sent)].concat();
        write("FIX.4.4-ME-YOU.messages.current.log", &quickfix);
        write("capture.fix", &[&received[..], &sent].concat());
        let (mut store, _) =
            FileStore::open(&dir.path().join("all/store"), Options::default(), 0).unwrap();
        let (at, kind) = (u64::try_from(AT).unwrap() + 7, Kind::Application);
        store.put(at, Record::Inbound { seq: 2, kind, bytes: &received }).unwrap();
        store.put(at, Record::Outbound { seq: 1, kind, bytes: &sent }).unwrap();
        store.commit().unwrap();
        drop(store);

        let (code, rows, said) = converted(&dir, &["all"]);
        assert_eq!((code, rows.len()), (0, 10), "{said}");
        for row in &rows {
            let file = text(row, "file").unwrap();
            let is_capture = file.ends_with("capture.fix");
            let is_sent = raw(row) == sent;
            let way = (!is_capture).then(|| if is_sent { "out" } else { "in" }.to_owned());
            assert_eq!(text(row, "direction"), way, "{file}");
            let session = if is_capture && !is_sent { "YOU->ME" } else { "ME->YOU" };
            assert_eq!(text(row, "session"), Some(format!("FIX.4.4:{session}")), "{file}");
            // In a capture, SendingTime(52) is the only time.
            let seconds = if is_sent { -24 } else { -23 };
            let time = if is_capture { AT + seconds * 1_000_000_000 } else { AT + 7 };
            assert_eq!(number(row, "time"), Some(time), "{file}");
            let (seq, msg_type, name, bytes) = match is_sent {
                true => (1, "D", "NewOrderSingle", &sent),
                false => (2, "8", "ExecutionReport", &received),
            };
            assert_eq!(number(row, "msg_seq_num"), Some(seq));
            assert_eq!(text(row, "msg_type").as_deref(), Some(msg_type));
            assert_eq!(text(row, "msg_name").as_deref(), Some(name));
            assert_eq!(*column(row, "poss_dup"), Field::Bool(!is_sent));
            assert_eq!(text(row, "cl_ord_id").as_deref(), Some("C1"));
            assert_eq!((text(row, "garbled"), &raw(row)), (None, bytes));
            // Joined with SOH, the fields of a row give the original message.
            let again =
                fields(row).into_iter().map(|(tag, values)| format!("{tag}={}\x01", values[0]));
            assert_eq!(again.collect::<String>().as_bytes(), bytes.as_slice());
        }
    }

    #[test]
    fn parquet_keeps_groups_data_and_what_is_no_text() {
        let dir = TempDir::new();
        let parties = between("A", "B", "D", 2, "453=2|448=DESK|447=D|448=TRADER|447=D|7777=x|");
        let data = between("A", "B", "B", 3, "148=h|95=5|96=a|b|c|58=t|");
        let mut latin = between("A", "B", "B", 4, "148=h|58=caf#|");
        let at = latin.iter().position(|b| *b == b'#').unwrap();
        latin[at] = 0xe9;
        let sum = transfix_codec::raw::check_sum(&latin[..latin.len() - 7]);
        let end = latin.len();
        latin[end - 4..end - 1].copy_from_slice(&sum);
        let own = between("A", "B", "U9", 5, "");
        fs::write(dir.path().join("a.fix"), [&parties[..], &data, &latin, &own].concat()).unwrap();
        let (code, rows, said) = converted(&dir, &["a.fix"]);
        assert_eq!((code, rows.len()), (0, 4), "{said}");
        let of = |row: &Row, tag| {
            let found = fields(row).into_iter().find(|(known, _)| *known == tag);
            found.map(|(_, values)| values)
        };
        assert_eq!(of(&rows[0], 448).unwrap(), ["DESK", "TRADER"]);
        assert_eq!(of(&rows[0], 7777).unwrap(), ["x"]);
        assert_eq!(of(&rows[0], 55), None);
        assert_eq!(of(&rows[1], 96).unwrap(), ["a\x01b\x01c"]);
        assert_eq!(of(&rows[2], 58).unwrap(), ["caf\\xE9"]);
        assert_eq!(
            (text(&rows[3], "msg_type").as_deref(), text(&rows[3], "msg_name")),
            (Some("U9"), None)
        );
        let all: Vec<_> = rows.iter().map(raw).collect();
        assert_eq!(all, [parties, data, latin, own]);
    }

    #[test]
    fn parquet_counts_damage_and_loses_nothing() {
        let dir = TempDir::new();
        let good = between("A", "B", "0", 2, "112=x|");
        let mut wrong_sum = good.clone();
        let end = wrong_sum.len();
        wrong_sum[end - 9] ^= 1;
        let headless = b"8=FIX.4.4\x019=5\x0149=A\x0110=163\x01";
        let log = [&good[..], b"\n", &wrong_sum, b"\n", headless, b"\n", &good[..20]].concat();
        fs::write(dir.path().join("a.log"), log).unwrap();
        let (code, rows, said) = converted(&dir, &["a.log"]);
        // A truncated message is reported and has no row.
        assert_eq!((code, rows.len()), (1, 3), "{said}");
        assert!(said.starts_with("3 messages\n3 garbled:\n  a.log: line 2, byte"), "{said}");
        let garbled: Vec<_> = rows.iter().map(|row| text(row, "garbled").is_some()).collect();
        assert_eq!(garbled, [false, true, true]);
        assert_eq!((raw(&rows[1]), raw(&rows[2])), (wrong_sum, headless.to_vec()));
        assert_eq!((text(&rows[2], "msg_type"), fields(&rows[2]).len()), (None, 0));
        // If one file cannot be read, the other files are still converted.
        fs::create_dir(dir.path().join("some")).unwrap();
        fs::write(dir.path().join("some/a.log"), &good).unwrap();
        fs::write(dir.path().join("some/b.log"), b"\x1f\x8b\x08\x00abc").unwrap();
        let (code, rows, said) = converted(&dir, &["some"]);
        assert_eq!((code, rows.len()), (2, 1), "{said}");
        assert!(said.contains("some/b.log: compressed with gzip"), "{said}");
        // Empty input gives a table without rows.
        fs::write(dir.path().join("empty.log"), b"").unwrap();
        let (code, rows, _) = converted(&dir, &["empty.log"]);
        assert_eq!((code, rows.len()), (0, 0));
        let (code, rows, said) = converted(&dir, &["none.log"]);
        assert_eq!((code, rows.len()), (2, 0), "{said}");
        let run = run_in(dir.path(), &["convert", "--to", "parquet", "--tags", "a.log"], b"");
        assert_eq!((run.code, &*run.out), (2, ""), "{run:?}");
    }

    #[test]
    fn parquet_hides_what_json_hides() {
        let dir = TempDir::new();
        let logon = between("A", "B", "A", 1, "98=0|108=30|554=hush|1=DESK|");
        fs::write(dir.path().join("a.log"), &logon).unwrap();
        let (mut store, _) =
            FileStore::open(&dir.path().join("store"), Options::default(), 0).unwrap();
        let kind = Kind::Application;
        store.put(1, Record::Inbound { seq: 1, kind, bytes: &logon }).unwrap();
        store.commit().unwrap();
        drop(store);
        for (args, password, account) in [
            (&["a.log"][..], "hush", "DESK"),
            (&["a.log", "--mask", "1"], "****", "****"),
            (&["store"], "****", "DESK"),
        ] {
            let (code, rows, said) = converted(&dir, args);
            assert_eq!((code, rows.len()), (0, 1), "{args:?}: {said}");
            let fields = fields(&rows[0]);
            for (tag, value) in [(554, password), (1, account)] {
                let found = fields.iter().find(|(known, _)| *known == tag).unwrap();
                assert_eq!(found.1, [value], "{args:?}");
            }
            let shows = |secret: &str| String::from_utf8(raw(&rows[0])).unwrap().contains(secret);
            assert_eq!((shows("hush"), shows("DESK")), (password == "hush", account == "DESK"));
        }
    }

    #[test]
    fn parquet_has_more_rows_than_one_group_takes() {
        let dir = TempDir::new();
        let text = "y".repeat(3 << 20);
        let long = between("A", "B", "B", 2, &format!("148=h|58={text}|"));
        fs::write(dir.path().join("a.fix"), long.repeat(25)).unwrap();
        let (code, rows, said) = converted(&dir, &["a.fix"]);
        assert_eq!((code, rows.len()), (0, 25), "{said}");
        assert!(rows.iter().all(|row| raw(row) == long));
        let file = File::open(dir.path().join("all.parquet")).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        assert_eq!(reader.metadata().num_row_groups(), 3);
    }

    /// The book's code examples for DuckDB and pandas.
    const ANALYSTS: &str = r#"
import duckdb, pandas
count = duckdb.sql("SELECT count(*) FROM 'all.parquet'").fetchall()
orders = duckdb.sql("""SELECT time, cl_ord_id, fields[55][1], fields[38][1]::DECIMAL(18,2)
    FROM 'all.parquet' WHERE msg_type = 'D' AND direction = 'out' ORDER BY time""").fetchall()
parties = duckdb.sql("SELECT fields[448] FROM 'all.parquet' WHERE msg_type = 'D'").fetchall()
ns = duckdb.sql("SELECT epoch_ns(time) FROM 'all.parquet' ORDER BY time").fetchall()
frame = pandas.read_parquet("all.parquet")
symbols = frame["fields"].map(lambda fields: dict(fields).get(55, [""])[0])
print(count[0][0], orders[0][1:], parties[0][0], [n for n, in ns])
print(len(frame), symbols.tolist(), frame["time"].dt.nanosecond.tolist(), frame["time"].dt.tz)
print(bytes(frame["raw"][0]).hex())
"#;

    #[test]
    #[ignore = "needs duckdb: cargo xtask peers programs"]
    fn duckdb_and_pandas_read_parquet() {
        let dir = TempDir::new();
        let fields = "11=C1|55=EU|38=5|453=2|448=DESK|447=D|448=TRADER|447=D|";
        let order = between("ME", "YOU", "D", 1, fields);
        let beat = between("YOU", "ME", "0", 2, "");
        let time = "20261121-09:28:25.00000000";
        let heads = [format!("{time}7 out : "), format!("{time}8 in : ")];
        let log = [heads[0].as_bytes(), &order, b"\n", heads[1].as_bytes(), &beat, b"\n"];
        fs::write(dir.path().join("words.log"), log.concat()).unwrap();
        assert_eq!(converted(&dir, &["words.log"]).0, 0);
        let mut python = Command::new("python3");
        let run = python.args(["-c", ANALYSTS]).current_dir(dir.path() as &Path).output();
        let run = run.expect("python3 with duckdb, pandas and pyarrow");
        let [out, err] = [run.stdout, run.stderr].map(|text| String::from_utf8(text).unwrap());
        let hex: String = order.iter().map(|b| format!("{b:02x}")).collect();
        let expected = format!(
            "2 ('C1', 'EU', Decimal('5.00')) ['DESK', 'TRADER'] [{}, {}]\n\
             2 ['EU', ''] [7, 8] UTC\n{hex}\n",
            AT + 7,
            AT + 8
        );
        assert_eq!(out, expected, "{err}");
    }
}
