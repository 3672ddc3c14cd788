"""Copy, restore and repartition a store."""
