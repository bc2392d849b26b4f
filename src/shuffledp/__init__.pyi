from shuffledp.accounting.curve import Interval as Interval
from shuffledp.accounting.setting import Setting as Setting
from shuffledp.input_files import read_budgets as read_budgets
from shuffledp.input_files import read_rounds as read_rounds
from shuffledp.interoperability.exchange import from_dp_accounting as from_dp_accounting
from shuffledp.interoperability.exchange import to_dp_accounting as to_dp_accounting
from shuffledp.interoperability.exchange import to_opendp_profile as to_opendp_profile
from shuffledp.interoperability.exchange import write_curve as write_curve
from shuffledp.mechanisms import randomised_response as krr  # noqa: F401
from shuffledp.publishing.area import area as area
from shuffledp.publishing.preview import preview as preview
from shuffledp.publishing.publication import publish as publish
from shuffledp.queries import bounds as bounds
from shuffledp.queries import calibrate as calibrate
from shuffledp.queries import certify as certify
from shuffledp.queries import compare as compare
from shuffledp.queries import compare_sparse as compare_sparse
from shuffledp.queries import delta as delta
from shuffledp.queries import epsilon as epsilon
from shuffledp.queries import fdp as fdp
from shuffledp.queries import log_delta as log_delta
from shuffledp.queries import matrix as matrix
from shuffledp.queries import mechanism as mechanism
from shuffledp.queries import personal_budgets as personal_budgets
from shuffledp.queries import plan as plan
from shuffledp.queries import rdp as rdp
from shuffledp.queries import verify as verify

__version__: str
