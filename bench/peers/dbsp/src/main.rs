//! The two standard views as a circuit of DBSP with one worker: an input map by id, a count and a sum by group.
//!
//! Each batch is one transaction. The program applies the changes of both views to maps, as a reader would. With storage
//! the state may leave memory, and a checkpoint at the end makes it durable.

mod join;

use anyhow::Result;
use dbsp::circuit::{CircuitConfig, CircuitStorageConfig};
use dbsp::mimalloc::MiMalloc;
use dbsp::operator::{MapHandle, Update};
use dbsp::typed_batch::IndexedZSetReader;
use dbsp::utils::{Tup2, Tup3};
use dbsp::{OrdIndexedZSet, OutputHandle, Runtime};
use feldera_types::config::{StorageCacheConfig, StorageConfig, StorageOptions};
use serde::Deserialize;
use std::collections::HashMap;
use std::env;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

type User = Tup3<String, String, i64>;
type Counts = OutputHandle<OrdIndexedZSet<String, i64>>;
type Sums = OutputHandle<OrdIndexedZSet<String, Tup2<i64, i64>>>;

#[derive(Deserialize)]
struct Line<'a> {
    id: u64,
    #[serde(default, borrow)]
    name: &'a str,
    #[serde(default, borrow)]
    city: &'a str,
    #[serde(default)]
    amount: i64,
    #[serde(default)]
    deleted: bool,
}

/// Return a circuit of one worker. With storage its state may leave memory.
fn configured(stored: bool, folder: &str) -> Result<CircuitConfig> {
    let config = CircuitConfig::with_workers(1);
    if !stored {
        return Ok(config);
    }
    let path = format!("{folder}/state");
    fs::create_dir(&path)?;
    let cache = StorageCacheConfig::default();
    let options = StorageOptions::default();
    let storage = CircuitStorageConfig::for_config(StorageConfig { path, cache }, options)?;
    Ok(config.with_storage(Some(storage)))
}

fn say(word: &str) {
    println!("{word}");
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).expect("the bench ended");
}

/// Return the lines of a file, without empty ones.
fn lines_of(text: &[u8]) -> Vec<&[u8]> {
    text.split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
        .collect()
}

fn main() -> Result<()> {
    let given: Vec<String> = env::args().collect();
    if given[1] == join::WORKLOAD {
        return join::run(&given);
    }
    let (stored, batch) = (given[3] == "storage", given[4].parse::<usize>()?);
    let (input, folder, rows) = (&given[5], &given[6], &given[7]);
    let text = fs::read(input)?;
    let lines = lines_of(&text);
    let config = configured(stored, folder)?;
    let (mut circuit, (mut users, counts, sums)): (_, (MapHandle<u64, User, User>, Counts, Sums)) =
        Runtime::init_circuit(config, |circuit| {
            let (users, handle) = circuit
                .add_input_map_persistent::<u64, User, User, _>(Some("users"), |value, update| {
                    *value = update.clone()
                });
            let names = users.map_index(|(_, Tup3(name, _, _))| (name.clone(), ()));
            let cities = users.map_index(|(_, Tup3(_, city, amount))| (city.clone(), *amount));
            let by_name = names.weighted_count_persistent(Some("by_name"));
            let by_city =
                cities.aggregate_linear_persistent(Some("by_city"), |amount| Tup2(1i64, *amount));
            Ok((handle, by_name.output(), by_city.output()))
        })?;
    let mut by_name: HashMap<String, i64> = HashMap::new();
    let mut by_city: HashMap<String, Tup2<i64, i64>> = HashMap::new();
    say("ready");
    for own in lines.chunks(batch) {
        let mut changes = Vec::with_capacity(own.len());
        for line in own {
            let doc: Line = serde_json::from_slice(line)?;
            let update = match doc.deleted {
                true => Update::Delete,
                false => {
                    Update::Insert(Tup3(doc.name.to_string(), doc.city.to_string(), doc.amount))
                }
            };
            changes.push(Tup2(doc.id, update));
        }
        users.append(&mut changes);
        circuit.transaction()?;
        apply(&mut by_name, counts.consolidate().iter());
        apply(&mut by_city, sums.consolidate().iter());
    }
    if stored {
        circuit.checkpoint().run()?;
    }
    say("done {\"version\": \"0.349.0\"}");
    let mut out = BufWriter::new(File::create(rows)?);
    for (name, n) in &by_name {
        writeln!(out, "by_name\t{name}\t{n}")?;
    }
    for (city, Tup2(n, total)) in &by_city {
        writeln!(out, "by_city\t{city}\t{n}\t{total}")?;
    }
    out.flush()?;
    let _ = circuit.kill();
    Ok(())
}

/// Apply the changes of a view: a row goes with a negative weight and comes with a positive one.
fn apply<V: PartialEq>(
    view: &mut HashMap<String, V>,
    changes: impl Iterator<Item = (String, V, i64)>,
) {
    for (group, value, weight) in changes {
        if weight > 0 {
            view.insert(group, value);
        } else if view.get(&group) == Some(&value) {
            view.remove(&group);
        }
    }
}
