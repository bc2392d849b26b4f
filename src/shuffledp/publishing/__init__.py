"""Publish a private map: real noise, a statement of the guarantee and a ledger of what was spent.

`publication.publish` combines the other modules: `counting` counts records,
`noise` chooses, checks and draws the noise, `ledger` records what it costs, `estimates` derives
intervals and estimates from the noisy counts, and `statement`, `folder` and `page` write the files.
"""
