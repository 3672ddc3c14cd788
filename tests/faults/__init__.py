"""What machines do to a store: power that goes, disks that fill, bits that turn, clocks that jump."""
