"""A wholesaler: sales by the country of the customer and the category of the product, with joins."""
