from shuffledp.accounting.accountant import bounds as bounds
from shuffledp.accounting.accountant import calibrate as calibrate
from shuffledp.accounting.accountant import delta as delta
from shuffledp.accounting.accountant import epsilon as epsilon
from shuffledp.accounting.accountant import log_delta as log_delta
from shuffledp.accounting.curve import Interval as Interval
from shuffledp.accounting.setting import Setting as Setting
from shuffledp.cli.ledger import read_rounds as read_rounds
from shuffledp.mechanisms import krr as krr

__version__: str
