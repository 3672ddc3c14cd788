//! The join of orders with customers, summed by the country of the customer: two input maps, a join and a sum.

use crate::{Sums, apply, configured, lines_of, say};
use anyhow::Result;
use dbsp::IndexedZSetReader;
use dbsp::Runtime;
use dbsp::operator::{MapHandle, Update};
use dbsp::utils::Tup2;
use serde::Deserialize;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};

pub const WORKLOAD: &str = "13";

type Order = Tup2<u64, i64>;
type Inputs = (MapHandle<u64, Order, Order>, MapHandle<u64, String, String>, Sums);

#[derive(Deserialize)]
struct Line<'a> {
    id: u64,
    #[serde(default)]
    customer: u64,
    #[serde(default, borrow)]
    country: Option<&'a str>,
    #[serde(default)]
    amount: i64,
}

pub fn run(given: &[String]) -> Result<()> {
    let (stored, batch) = (given[3] == "storage", given[4].parse::<usize>()?);
    let (input, folder, rows) = (&given[5], &given[6], &given[7]);
    let text = fs::read(input)?;
    let lines = lines_of(&text);
    let config = configured(stored, folder)?;
    let (mut circuit, (mut orders, mut customers, sums)): (_, Inputs) =
        Runtime::init_circuit(config, |circuit| {
            let (orders, order_handle) = circuit
                .add_input_map_persistent::<u64, Order, Order, _>(Some("orders"), |value, update| {
                    *value = update.clone()
                });
            let (customers, customer_handle) = circuit
                .add_input_map_persistent::<u64, String, String, _>(
                    Some("customers"),
                    |value, update| *value = update.clone(),
                );
            let by_customer = orders.map_index(|(_, Tup2(customer, amount))| (*customer, *amount));
            let by_customer = by_customer.set_persistent_id(Some("by_customer"));
            let customers = customers.set_persistent_id(Some("joined_customers"));
            let sold = by_customer.join_index(&customers, |_, amount, country| {
                Some((country.clone(), *amount))
            });
            let by_country =
                sold.aggregate_linear_persistent(Some("by_country"), |amount| Tup2(1i64, *amount));
            Ok((order_handle, customer_handle, by_country.output()))
        })?;
    let mut by_country: HashMap<String, Tup2<i64, i64>> = HashMap::new();
    say("ready");
    for own in lines.chunks(batch) {
        let (mut order_changes, mut customer_changes) = (Vec::new(), Vec::new());
        for line in own {
            let doc: Line = serde_json::from_slice(line)?;
            match doc.country {
                Some(country) => {
                    customer_changes.push(Tup2(doc.id, Update::Insert(country.to_string())))
                }
                None => {
                    let order = Tup2(doc.customer, doc.amount);
                    order_changes.push(Tup2(doc.id, Update::Insert(order)))
                }
            }
        }
        customers.append(&mut customer_changes);
        orders.append(&mut order_changes);
        circuit.transaction()?;
        apply(&mut by_country, sums.consolidate().iter());
    }
    if stored {
        circuit.checkpoint().run()?;
    }
    say("done {\"version\": \"0.349.0\"}");
    let mut out = BufWriter::new(File::create(rows)?);
    for (country, Tup2(n, total)) in &by_country {
        writeln!(out, "by_country\t{country}\t{n}\t{total}")?;
    }
    out.flush()?;
    let _ = circuit.kill();
    Ok(())
}
