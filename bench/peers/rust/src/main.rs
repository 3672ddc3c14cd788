//! A plain program for the two standard views: hash maps in memory, and one synced append per batch.
//!
//! It has no index on disk, no snapshots and no feed. After a crash it would read its whole file again.

use rustc_hash::FxHashMap;
use serde::Deserialize;
use std::env;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};

#[derive(Deserialize)]
struct Line<'a> {
    id: u64,
    ts: i64,
    #[serde(default, borrow)]
    name: &'a str,
    #[serde(default, borrow)]
    city: &'a str,
    #[serde(default)]
    amount: i64,
    #[serde(default)]
    deleted: bool,
}

/// The stored version of a document. A deleted one keeps its ts.
struct Stored {
    ts: i64,
    fields: Option<(u32, u32, i64)>,
}

/// Texts by number, with the results of each.
#[derive(Default)]
struct Groups {
    numbers: FxHashMap<Box<str>, u32>,
    rows: Vec<(i64, i64)>,
}

impl Groups {
    fn number(&mut self, text: &str) -> u32 {
        if let Some(&found) = self.numbers.get(text) {
            return found;
        }
        let number = self.rows.len() as u32;
        self.numbers.insert(text.into(), number);
        self.rows.push((0, 0));
        number
    }

    fn add(&mut self, number: u32, sign: i64, amount: i64) {
        let row = &mut self.rows[number as usize];
        row.0 += sign;
        row.1 += sign * amount;
    }
}

fn say(word: &str) {
    println!("{word}");
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).expect("the bench ended");
}

fn main() -> io::Result<()> {
    let given: Vec<String> = env::args().collect();
    let (batch, input, folder, rows) = (
        given[4].parse::<usize>().unwrap(),
        &given[5],
        &given[6],
        &given[7],
    );
    let text = fs::read(input)?;
    let lines: Vec<&[u8]> = text
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
        .collect();
    let mut log = File::create(format!("{folder}/log"))?;
    let mut stored: FxHashMap<u64, Stored> = FxHashMap::default();
    let (mut names, mut cities) = (Groups::default(), Groups::default());
    say("ready");
    for own in lines.chunks(batch) {
        let mut bytes = Vec::with_capacity(own.len() * 96);
        for line in own {
            let doc: Line = serde_json::from_slice(line)?;
            let fields = (!doc.deleted)
                .then(|| (names.number(doc.name), cities.number(doc.city), doc.amount));
            if let Some(old) = stored.get(&doc.id) {
                if old.ts >= doc.ts {
                    continue;
                }
                if let Some((name, city, amount)) = old.fields {
                    names.add(name, -1, 0);
                    cities.add(city, -1, amount);
                }
            }
            if let Some((name, city, amount)) = fields {
                names.add(name, 1, 0);
                cities.add(city, 1, amount);
            }
            stored.insert(doc.id, Stored { ts: doc.ts, fields });
            bytes.extend_from_slice(line);
            bytes.push(b'\n');
        }
        log.write_all(&bytes)?;
        log.sync_data()?;
    }
    say("done {\"version\": \"serde_json 1.0.145\"}");
    let mut out = BufWriter::new(File::create(rows)?);
    for (text, &number) in &names.numbers {
        let (n, _) = names.rows[number as usize];
        if n > 0 {
            writeln!(out, "by_name\t{text}\t{n}")?;
        }
    }
    for (text, &number) in &cities.numbers {
        let (n, total) = cities.rows[number as usize];
        if n > 0 {
            writeln!(out, "by_city\t{text}\t{n}\t{total}")?;
        }
    }
    out.flush()
}
